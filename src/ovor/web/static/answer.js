// One answer: what it says about an image, and "Wrong? It is a …", which teaches it at once.

import { backend } from "./backend.js";
import { announce, el, megabytes, percent, tile } from "./dom.js";
import { adopt, current, known, onModel, seenVersion, taker } from "./model.js";
import { withNames } from "./question.js";
import { one } from "./words.js";

const CHOICES = 8; // classes that are offered by a click; the others are typed

let undoable = null; // the button of the last correction, and the version that it would undo

/** When the model has changed since, a button would undo something else. */
onModel(({ version }) => {
  if (!undoable || undoable.version === version) return;
  undoable.button.remove();
  undoable = null;
});

/** An unknown image has no percentage: how sure it would be among its classes says nothing here. */
export const inWords = (row) =>
  row.unknown ? `unknown – most like ${row.likeliest}` : `${row.label}, ${percent(row.confidence)}`;

function head(row) {
  if (row.unknown) {
    return el(
      "p",
      { class: "answer unknown" },
      el("strong", { text: "unknown" }),
      el("span", { text: ` – most like ${row.likeliest}` }),
    );
  }
  return el(
    "p",
    { class: "answer" },
    el("strong", { text: row.label }),
    el("span", { text: percent(row.confidence) }),
  );
}

function bars(row, most) {
  if (row.unknown) return null;
  const each = row.best.slice(0, most).map(({ class: name, confidence }) =>
    el(
      "li",
      {},
      el("span", { class: "bar-name", text: name, title: name }),
      el("meter", { min: 0, max: 1, value: confidence, "aria-label": name }),
      el("span", { class: "bar-share", text: percent(confidence) }),
    ),
  );
  return el("ul", { class: "bars", "aria-label": "Likeliest classes" }, ...each);
}

export class Answer {
  /**
   * `most`: bars to show; `later(file, name)`: what a model does that cannot learn one image; `live`:
   * the next answer comes at once, so that this one cannot be put right.
   */
  constructor(place, { most, later, live = false }) {
    Object.assign(this, { place, most, later, live });
  }

  /** What was said before stays until there is something else to say, but nothing can be done with it. */
  pending(words) {
    this.place.setAttribute("aria-busy", "true");
    for (const control of this.controls()) control.disabled = true;
    this.place.querySelector(".looking")?.remove();
    if (!this.place.querySelector(".answer")) this.place.replaceChildren();
    this.place.prepend(el("p", { class: "looking", text: words }));
  }

  controls() {
    return this.place.querySelectorAll("button, input");
  }

  say(...nodes) {
    this.place.removeAttribute("aria-busy");
    this.place.replaceChildren(...nodes.filter(Boolean));
  }

  fail(words) {
    this.say(el("p", { class: "error", text: words }));
  }

  /** `taught`: what the image was taught as before, by a correction. */
  show(file, row, version, taught = null, note = null) {
    Object.assign(this, { file, row, version, taught });
    this.place.closest(".result, .sketch, .writing")?.classList.toggle("is-unknown", row.unknown);
    const beyond = row.shortened ? el("p", { class: "note", text: "It is long: the end of it was not read." }) : null;
    this.say(head(row), bars(row, this.most), beyond, note, current()?.can_teach && !this.live ? this.correction() : null);
  }

  correction() {
    const open = el("button", { type: "button", class: "wrong", "aria-expanded": "false" });
    open.textContent = this.row.unknown ? "Tell it: it is a …" : "Wrong? It is a …";
    const form = el("form", { class: "correct", hidden: true, novalidate: true });
    open.addEventListener("click", () => {
      if (!form.firstChild) this.fill(form);
      form.hidden = !form.hidden;
      open.setAttribute("aria-expanded", String(!form.hidden));
      if (!form.hidden) form.querySelector("button, input").focus();
    });
    return el("div", {}, open, form);
  }

  fill(form) {
    const says = this.row.unknown ? null : this.row.label;
    const likely = this.row.best.map((own) => own.class);
    const names = [...new Set([...likely, ...known()])].filter((name) => name !== says && known().includes(name));
    const choices = names.slice(0, CHOICES).map((name) =>
      el("li", {}, el("button", { type: "button", class: "choice", onclick: () => this.correct(form, name) }, tile(name), el("span", { text: name }))),
    );
    const id = `correct-${Math.random().toString(36).slice(2)}`;
    const field = el("input", { type: "text", id, list: "known-classes", autocomplete: "off", maxlength: 200 });
    form.append(
      el("ul", { class: "choices", "aria-label": "Classes that it knows" }, ...choices),
      el("label", { for: id, text: choices.length ? "or something else" : "It is a" }),
      el("div", { class: "row" }, field, el("button", { type: "submit", class: "main", text: "Learn it" })),
      el("p", { class: "error", role: "alert" }),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = field.value.trim().normalize("NFC");
      if (name) this.correct(form, name);
      else field.focus();
    });
  }

  async correct(form, name) {
    if (!current().exact) {
      this.later(this.file, name);
      return;
    }
    const { file, taught } = this;
    form.querySelector(".error").textContent = "";
    this.pending("Learning…");
    this.learning = true; // its answer comes with the model
    try {
      const done = await withNames((meant, yes) => {
        name = meant.get(name) ?? name;
        return backend.correct(file, name, { was: taught, yes });
      });
      if (file !== this.file) return; // the drawing is another one by now
      if (done) this.learned(done, name);
      else this.again(form, "");
    } catch (error) {
      if (file === this.file) this.again(form, error.message);
    } finally {
      this.learning = false;
    }
  }

  again(form, words) {
    this.place.removeAttribute("aria-busy");
    this.place.querySelector(".looking")?.remove();
    for (const control of this.controls()) control.disabled = false;
    form.querySelector(".error").textContent = words;
    form.querySelector("button, input").focus();
  }

  learned({ model, row }, name) {
    const right = !row.unknown && row.label === name;
    const words = right ? `Learned: it is “${name}”.` : `Learned as “${name}”; one ${one()} is not enough yet for it to say so.`;
    const undo = el("button", { type: "button", class: "quiet", text: "Undo", onclick: () => this.undo(undo) });
    const note = el("p", { class: "learned" }, el("span", { text: words }), undo);
    this.show(this.file, row, model.version, name, note);
    adopt(model); // which takes the button of the correction before away
    undoable = { button: undo, version: model.version };
    announce(`${words} It says now: ${inWords(row)}.`);
    undo.focus();
  }

  async undo(button) {
    button.disabled = true;
    const { file } = this;
    try {
      const model = await backend.undo();
      this.version = model.version; // so that nobody asks a second time
      adopt(model);
      const { row, version } = await backend.predict(file, { keep: false });
      if (file !== this.file) return;
      this.show(file, row, version, null, el("p", { class: "learned", text: "Undone: it is as if you had not said so." }));
      announce(`Undone. It says now: ${inWords(row)}.`);
      this.place.querySelector(".wrong")?.focus();
    } catch (error) {
      this.fail(error.message);
    }
  }
}

/** Ask about a file; throws a sentence that says what is wrong with it. */
export async function predict(file, options) {
  const limit = current()?.limits.image_bytes;
  if (file.size > limit) {
    throw new Error(`${file.name} has ${megabytes(file.size)}, and ${taker} takes at most ${megabytes(limit)}: make it smaller.`);
  }
  const found = await backend.predict(file, options);
  seenVersion(found.version);
  if (found.row.error) throw new Error(found.row.error);
  return found;
}
