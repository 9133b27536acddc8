// Writing: the box in which a text is asked about, texts as files, and tables of them.

import { Answer, inWords, predict } from "./answer.js";
import { backend } from "./backend.js";
import { announce, byId, el } from "./dom.js";
import { onModel } from "./model.js";
import { written } from "./words.js";

const PAUSE = 500; // milliseconds without a key, after which it answers
const QUOTED = 60; // characters of a name
const TABLE = /\.(csv|tsv|jsonl|ndjson)$/i;

/** What is to be chosen where files are asked for. */
export const KINDS = ".txt,.csv,.tsv,.jsonl,.ndjson,text/plain";
export const isTable = (file) => TABLE.test(file.name);

/** A text as a file, as all else here has them; its beginning is its name. */
export function asFile(text) {
  const line = text.slice(0, 4 * QUOTED).replace(/\s+/g, " ").trim();
  const name = line.length > QUOTED ? `${line.slice(0, QUOTED - 1)}…` : line;
  return new File([text], name || "text", { type: "text/plain" });
}

/** Files with the rows of tables in their places. Throws what is wrong with a table. */
export async function unpacked(files) {
  const found = [];
  for (const file of files) {
    if (!written() || !isTable(file)) found.push(file);
    else found.push(...(await backend.table(file, { labelled: false })).map(({ text }) => asFile(text)));
  }
  return found;
}

/** The texts of a table by their labels. Throws what is wrong with it. */
export async function byLabel(file) {
  const classes = new Map();
  for (const { text, label } of await backend.table(file, { labelled: true })) {
    classes.set(label, [...(classes.get(label) ?? []), asFile(text)]);
  }
  return classes;
}

// --- the box

let answer;
let asked = null; // what stops the question about the text as it was before
let later = 0;

const box = () => byId("text");

function changed() {
  asked?.abort();
  clearTimeout(later);
  answer.file = null;
  const empty = !box().value.trim();
  byId("text-clear").disabled = byId("text-ask").disabled = empty;
  if (empty) {
    byId("write").classList.remove("is-unknown");
    answer.say(el("p", { class: "hint", text: "The answer comes when you pause." }));
    return;
  }
  answer.pending("Reading…");
  later = setTimeout(ask, PAUSE);
}

/** Ask about the text; what is half typed does not wait in the inbox. */
async function ask({ keep = false } = {}) {
  clearTimeout(later);
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  const waiting = (seconds) => {
    if (!signal.aborted) answer.pending(`The server is busy: trying again in ${seconds} s.`);
  };
  try {
    const file = asFile(box().value);
    const { row, version } = await predict(file, { signal, waiting, keep });
    if (signal.aborted) return;
    answer.show(file, row, version);
    announce(`The text: ${inWords(row)}.`);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    answer.fail(error.message);
  }
}

function askNow() {
  if (!box().value.trim()) return;
  answer.pending("Reading…");
  ask({ keep: true });
}

/** `later(file, name)`: what is done with a text that cannot be learned at once. */
export function startTexts({ later: putAside }) {
  answer = new Answer(byId("text-answer"), { most: 3, later: putAside });
  box().addEventListener("input", changed);
  box().addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    askNow();
  });
  byId("text-ask").addEventListener("click", askNow);
  byId("text-clear").addEventListener("click", () => {
    box().value = "";
    changed();
    box().focus();
  });
  changed();
  onModel((model) => {
    byId("write").hidden = !written() || !model.lessons.length;
    if (answer.file && answer.version !== model.version) changed();
  });
}
