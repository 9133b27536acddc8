// The page: its three views, and what stands around them.

import { byId, counted, el } from "./dom.js";
import { guardDrops } from "./files.js";
import { startMemory } from "./memory.js";
import { onModel, refresh } from "./model.js";
import { addImages, startPredict } from "./predict.js";
import { pasteImages, startTeach } from "./teach.js";

const VIEWS = ["predict", "teach", "memory"];
const view = () => (VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : VIEWS[0]);

function showView() {
  for (const name of VIEWS) {
    const chosen = name === view();
    byId(name).hidden = !chosen;
    byId(`tab-${name}`).setAttribute("aria-selected", String(chosen));
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1; // arrows move among the tabs
  }
}

function moveTab(event) {
  const at = VIEWS.indexOf(view());
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = VIEWS.at(to % VIEWS.length);
  location.hash = name;
  byId(`tab-${name}`).focus();
}

function showModel(model) {
  const classes = model.tasks.reduce((sum, task) => sum + task.classes.length, 0);
  document.title = `${model.name} – ovor`;
  byId("name").textContent = model.name;
  const facts = [model.method, counted(classes, "class", "classes"), counted(model.tasks.length, "task")];
  byId("about").replaceChildren(...facts.map((text) => el("span", { class: "fact", text })));
  byId("facts").textContent = `Backbone: ${model.backbone}. The model has ${model.megabytes} MB, and no image in it.`;
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
});

guardDrops();
document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  if (view() === "predict") addImages(files);
  if (view() === "teach") pasteImages(files);
});

showView();
startPredict();
startTeach();
startMemory();
onModel(showModel);
refresh();
