// What an exported page says of itself: where things are, which engine computes, whether it needs a
// network, and that something is not saved yet.

import { backend } from "../backend.js";
import { download, onSaved, openAnother, tell } from "../changes.js";
import { byId, el } from "../dom.js";
import { chooses } from "../files.js";
import { current, onModel } from "../model.js";

const LEFT = "It could not be kept for use without a network: this browser has no room for it, or files of its folder were changed.";
const GONE = "Reload to use it. What is not saved is lost by that: save the model first.";
let saved = null; // the version of the model that was opened or saved last

const unsaved = () => current() !== null && saved !== null && current().version !== saved;

function show() {
  byId("device-save").hidden = !unsaved();
  byId("device-unsaved").hidden = !unsaved();
}

async function showEngine() {
  const line = byId("device-engine");
  let loading = true;
  backend.onLoading(({ come, total }) => {
    const share = el("span", { "aria-hidden": "true", text: `: ${whole(come)} of ${whole(total)} MB` }); // nobody wants to hear each
    if (loading) line.replaceChildren("Loading what looks at images", share);
  });
  try {
    const { words, engine } = await backend.engine();
    loading = false;
    line.textContent = `Computes on this device, by ${words}.`;
    await offline(engine);
  } catch (error) {
    loading = false;
    line.textContent = "";
    byId("gone").textContent = error.message;
    byId("gone").hidden = false;
  }
}

const whole = (bytes) => Math.round(bytes / 1e6);

/** Let the service worker keep all files, and say what came of it. */
async function offline(engine) {
  const line = byId("device-offline");
  if (!navigator.serviceWorker) {
    line.textContent = "It needs its server whenever it is opened: browsers keep pages only over https, or from this machine.";
    return;
  }
  try {
    const registration = await navigator.serviceWorker.register("sw.js", { updateViaCache: "none" });
    newer(registration);
    const all = (await installed(registration)) && (await kept(registration.active, engine));
    line.textContent = all ? "It works without a network from now on." : LEFT;
  } catch {
    line.textContent = "It could not be kept for use without a network, as this browser does not let pages do so now.";
  }
}

/** Whether there is a service worker in the end: one that could not keep its files goes again. */
function installed(registration) {
  const worker = registration.active ?? registration.waiting ?? registration.installing;
  return new Promise((resolve) => {
    const look = () => {
      if (registration.active) resolve(true);
      else if (!worker || worker.state === "redundant") resolve(false);
    };
    worker?.addEventListener("statechange", look);
    look();
  });
}

function kept(worker, engine) {
  const { port1, port2 } = new MessageChannel();
  worker.postMessage({ keep: engine }, [port2]);
  return new Promise((resolve) => {
    port1.onmessage = ({ data }) => resolve(data.kept);
  });
}

/** Say when the server has another export than this one; the person decides when it takes over. */
function newer(registration) {
  const ready = () => {
    if (!registration.waiting || !navigator.serviceWorker.controller) return;
    tell(`There is a newer version of this page. ${GONE}`);
    const reload = el("button", { type: "button", text: "Reload" });
    reload.addEventListener("click", () => {
      navigator.serviceWorker.addEventListener("controllerchange", () => location.reload());
      registration.waiting.postMessage({ replace: true });
    });
    byId("told").append(reload);
  };
  ready();
  registration.addEventListener("updatefound", () => registration.installing?.addEventListener("statechange", ready));
}

export function startStatus() {
  onModel((model) => {
    saved ??= model.version;
    show();
  });
  onSaved((version) => {
    saved = version;
    show();
  });
  byId("device-save").addEventListener("click", download);
  chooses(byId("open-choose"), byId("open-file"), (input) => openAnother(input.files[0]));
  window.addEventListener("beforeunload", (event) => {
    if (unsaved()) event.preventDefault();
  });
  showEngine();
}
