// The page: its views, and what stands around them.

import { addImages, startAsk } from "./ask.js";
import { backend } from "./backend.js";
import { watchCamera } from "./camera.js";
import { download, isModel, take, undo } from "./changes.js";
import { byId, counted, megabytes } from "./dom.js";
import { chooses, guardDrops, takesModels } from "./files.js";
import { lookAgain, startInbox } from "./inbox.js";
import { startMemory } from "./memory.js";
import { classesOf, current, onModel, refresh } from "./model.js";
import { pasteImages, startTeach } from "./teach.js";
import { many, one } from "./words.js";

const VIEWS = ["ask", "inbox", "teach", "memory"];
const TEACHING = ["inbox", "teach"]; // not for those who may only ask
const views = () => (current()?.can_teach === false ? VIEWS.filter((name) => !TEACHING.includes(name)) : VIEWS);
const view = () => (views().includes(location.hash.slice(1)) ? location.hash.slice(1) : VIEWS[0]);

function showView() {
  for (const name of VIEWS) {
    const chosen = name === view();
    byId(name).hidden = !chosen;
    byId(`tab-${name}`).hidden = !views().includes(name);
    byId(`tab-${name}`).setAttribute("aria-selected", String(chosen));
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1; // arrows move among the tabs
  }
  byId("lesson-area").hidden = !TEACHING.includes(view());
}

function moveTab(event) {
  const at = views().indexOf(view());
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views().length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = views().at(to % views().length);
  location.hash = name;
  showView(); // the event of it comes later, perhaps after the next key
  byId(`tab-${name}`).focus();
}

function showModel(model) {
  const classes = classesOf(model);
  document.title = `${model.name} – ovor`;
  document.body.classList.toggle("may-teach", model.can_teach);
  byId("name").textContent = model.name;
  byId("about").textContent = classes.length
    ? `Knows ${counted(classes.length, "class", "classes")}: ${classes.map(({ name }) => name).join(", ")}`
    : "Knows nothing yet";
  byId("facts").hidden = !classes.length;
  byId("facts").textContent = `The model has ${model.megabytes ? `${megabytes(1e6 * model.megabytes)}, and ` : ""}no ${one()} in it. What turns ${many()} into numbers: ${model.backbone}.`;
  byId("model-undo").disabled = model.can_undo === false;
  byId("model-download").disabled = !classes.length;
  showView();
}

for (const name of VIEWS) {
  byId(`tab-${name}`).addEventListener("click", () => {
    location.hash = name;
  });
}
document.querySelector("[role=tablist]").addEventListener("keydown", moveTab);
window.addEventListener("hashchange", () => {
  showView();
  refresh(); // others may have taught it meanwhile
  if (view() === "inbox") lookAgain();
});

watchCamera();
guardDrops();
takesModels(document, isModel, (file) => {
  if (current()) take(file);
});
document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  if (view() === "ask") addImages(files);
  if (view() === "teach") pasteImages(files);
});
byId("model-undo").addEventListener("click", () => undo());
byId("model-download").addEventListener("click", download);
chooses(byId("merge-choose"), byId("merge-file"), (input) => take(input.files[0]));

showView();
startAsk();
startTeach();
startMemory();
startInbox();
onModel(showModel);
backend.start?.();
refresh();
