// What a model file says in words, checked: whatever is wrong with it becomes a sentence.

import { Refused } from "./errors.js";
import { shortened, unreadable } from "./names.js";
import { Float, plain } from "./python_json.js";

const KIND = "ovor classifier";
const SCHEMA = 1;
const MOST_CLASSES = 5000; // the head is solved with matrices of as many rows and columns
const OPTIONS = { fading: 1, projection: 0, tuning: "none", outliers: 0, bottleneck: 64, tokens: 5, weight_decay: 5e-4 };

/** The `about` of a file's JSON value: what is kept as it is, and what changes. */
export function readDescription(meta) {
  if (meta.get("kind") !== KIND) {
    throw new Refused("This file is one of ovor's, but not a classifier: give one that `ovor learn` or this page made.");
  }
  const schema = meta.get("schema");
  if (schema !== SCHEMA) {
    const newer = Number.isSafeInteger(schema) && schema > SCHEMA;
    const remedy = newer ? "get a newer page." : "learn it anew.";
    throw new Refused(`This file has another format, and this page reads the format ${SCHEMA}: ${remedy}`);
  }
  if (endless(meta)) throw notFinite();
  const found = checkedAbout(meta.get("about"));
  if (!found.tasks.some(({ classes }) => classes.length)) throw new Refused("This file knows no class: learn it anew.");
  return found;
}

export const notFinite = (where = "") =>
  new Refused(
    `This file holds numbers that are not finite (NaN or infinity)${where}, so it can answer nothing: put a good ` +
      "copy in its place, or learn it anew.",
  );

/** Whether a JSON value holds a number that is not finite, which Python reads from it. */
function endless(value) {
  if (value instanceof Map) return [...value.values()].some(endless);
  if (Array.isArray(value)) return value.some(endless);
  return value instanceof Float && !Number.isFinite(value.value);
}

/** An `about`, as the parts that this page uses; its `words` hold the rest. */
export function checkedAbout(words) {
  const about = new Place(words, "about", Map);
  const run = about.at("run", Map);
  const backbone = about.at("backbone", Map);
  const found = {
    words,
    method: run.text("method"),
    imageSize: run.at("transform", Map).count("size", 0),
    backbone: { name: backbone.text("name"), sha256: backbone.text("sha256"), bundled: backbone.flag("bundled", false) },
    reads: backbone.text("reads", "images"),
    tasks: about.at("tasks", Array).each(Map).map(taskOf),
    falseAlarms: about.share("false_alarms", 1),
    expected: new Map([...about.at("expected", Map, new Map()).each(Map)].map((one) => [one.name, expectedOf(one)])),
    once: about.flag("once", false),
    lesson: about.text("lesson", ""),
    sums: about.flag("sums", true),
  };
  about.share("hold_out", 1);
  checkNames(found);
  checkMethod(found, run);
  return found;
}

function taskOf(task) {
  const classes = task.at("classes", Array).values.map((name) => task.checked(typeof name === "string", name));
  const images = task.at("images", Array).values.map((count) => task.checked(Number.isSafeInteger(count) && count > 0, count));
  task.checked(classes.length === images.length);
  return {
    classes,
    images,
    heldOut: task.count("held_out", 0),
    threshold: task.number("threshold"),
    accuracy: task.has("accuracy") ? task.share("accuracy", 100) : null,
  };
}

function expectedOf(one) {
  const others = one.at("confused_with", Array, []).values;
  return {
    expected: one.has("expected") ? one.share("expected", 100) : null,
    confusedWith: others.map((name) => one.checked(typeof name === "string", name)),
  };
}

/** A value in the words of a file, and where it is. */
class Place {
  constructor(value, where, Kind) {
    Object.assign(this, { value, where, name: where.split("\0").at(-1) });
    this.checked(value instanceof Kind);
  }

  checked(right, value) {
    if (right) return value;
    const where = this.where.split("\0").join(".");
    throw new Refused(`This file does not say what a model must (${where.slice(0, 100)}): learn it anew with this version of ovor.`);
  }

  get values() {
    return this.value;
  }

  has = (name) => (this.value.get(name) ?? null) !== null;

  at = (name, Kind, missing) => new Place(this.value.get(name) ?? missing, `${this.where}\0${name}`, Kind);

  /** The places inside, which have names or numbers. */
  each(Kind) {
    const inside = Array.isArray(this.value) ? this.value.map((value, i) => [String(i), value]) : [...this.value];
    return inside.map(([name, value]) => Object.assign(new Place(value, `${this.where}\0${name}`, Kind), { name }));
  }

  text(name, missing) {
    const found = this.value.get(name) ?? missing;
    return this.inside(name, typeof found === "string", found);
  }

  flag(name, missing) {
    const found = this.value.get(name) ?? missing;
    return this.inside(name, typeof found === "boolean", found);
  }

  count(name, missing) {
    const found = this.value.get(name) ?? missing;
    return this.inside(name, Number.isSafeInteger(found) && found >= 0, found);
  }

  number(name) {
    const found = asNumber(this.value.get(name));
    return this.inside(name, Number.isFinite(found), found);
  }

  share(name, most) {
    const found = this.number(name);
    return this.inside(name, found >= 0 && found <= most, found);
  }

  inside(name, right, value) {
    return new Place(new Map(), `${this.where}\0${name}`, Map).checked(right, value);
  }
}

const asNumber = (value) => (value instanceof Float ? value.value : value);

function checkNames({ tasks, expected }) {
  const names = tasks.flatMap(({ classes }) => classes);
  const told = [...expected].flatMap(([name, { confusedWith }]) => [name, ...confusedWith]);
  for (const name of [...names, ...told]) {
    const wrong = unreadable(name);
    if (wrong) throw new Refused(`This file has a class called ${shortened(name)}, ${wrong}: learn it anew.`);
  }
  if (new Set(names).size < names.length) throw new Refused("This file has two classes of the same name: learn it anew.");
  if (names.length > MOST_CLASSES) {
    const most = MOST_CLASSES.toLocaleString("en");
    throw new Refused(`This file has ${names.length.toLocaleString("en")} classes, and this page takes ${most} at most: use ovor itself.`);
  }
}

function checkMethod(found, run) {
  if (found.method !== "analytic" || run.has("vor")) {
    const name = shortened(found.method + (run.has("vor") ? "+vor" : ""));
    throw new Refused(`This file was made with the method ${name}, which this page cannot use: take one of the method analytic.`);
  }
  const options = optionsOf(found);
  if (options.get("tuning") !== "none" || options.get("outliers") !== 0) {
    throw new Refused("This file was made with options that this page does not know (tuning, outliers): use ovor itself.");
  }
}

/** The options of the method that say what features mean. */
function optionsOf({ words }) {
  const given = words.get("run").get("options") ?? new Map();
  if (!(given instanceof Map)) throw new Refused("This file does not say what a model must (run.options): learn it anew.");
  return new Map(Object.entries(OPTIONS).map(([name, usual]) => [name, asNumber(given.get(name) ?? usual)]));
}

/** Refuse a model of something else than what is given to it here, such as texts where it is `reads`, images. */
export function checkReads(about, reads) {
  if (about.reads !== reads) {
    throw new Refused(`This file is of a model that reads no ${reads}, and this page asks about nothing else: use ovor itself.`);
  }
}

/** Refuse what was learned with another network or otherwise: its features mean something else. */
export function checkAlike(one, other) {
  checkReads(other, one.reads);
  if (one.backbone.sha256 !== other.backbone.sha256) {
    const [own, given] = [one.backbone.name, other.backbone.name];
    const which = own === given ? `another version of ${given}` : `${given}, and this page has ${own}`;
    throw new Refused(
      `This file was made with another backbone (${which}), so the page can neither ask nor merge it: export a page ` +
        "with that model (ovor export --web), or use one that was made with the page's own.",
    );
  }
  const meaning = (about) => JSON.stringify([[...optionsOf(about)], plain(about.words.get("run").get("transform"))]);
  if (meaning(one) !== meaning(other)) {
    throw new Refused(
      "This file was made with other settings than the page's model, so the page can neither ask nor merge it: use a " +
        "file that was made with the same.",
    );
  }
}

/** The words of a file for what a model is now. */
export function described(about, state) {
  const words = new Map(about.words);
  const fraction = (x) => (x === null ? null : new Float(x));
  words.set("tasks", state.tasks.map((task) =>
    new Map([
      ["classes", task.classes],
      ["images", task.images],
      ["held_out", task.heldOut],
      ["threshold", new Float(task.threshold)],
      ["accuracy", fraction(task.accuracy)],
    ]),
  ));
  const told = ([name, { expected, confusedWith }]) =>
    [name, new Map([["expected", fraction(expected)], ["confused_with", confusedWith]])];
  words.set("expected", new Map([...state.expected].map(told)));
  words.set("once", state.digests !== null);
  words.set("lesson", state.lesson);
  words.set("before", "");
  words.set("sums", state.moments !== null);
  return new Map([["kind", KIND], ["schema", SCHEMA], ["about", words]]);
}
