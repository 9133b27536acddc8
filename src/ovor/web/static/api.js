// The server as a backend: its addresses and forms are known here and nowhere else on the page.

import { events, getJson, send, sendJson, upload } from "./transport.js";

function form(fields) {
  const made = new FormData();
  for (const [name, value] of fields) {
    if (value instanceof File) made.append(name, value, value.name);
    else if (value != null) made.append(name, value);
  }
  return made;
}

// The fields of what is asked about or taught are called what the model reads.
let reads = { one: "image", many: "images" };

const post = (path, fields) => getJson(path, { method: "POST", body: form(fields) });
const confirmed = (yes) => (yes ? [["yes", "true"]] : []);
const json = (yes) => (yes ? { yes: true } : {});

export const http = {
  /** What the model knows, and what this visitor may do. */
  async model() {
    const found = await getJson("model");
    reads = found.reads;
    return found;
  },

  /** What is in an image, as {version, row}; `keep`: may it wait in the inbox, if that is not sure? */
  async predict(file, { keep = true, ...options } = {}) {
    try {
      const body = form([[reads.many, file], ["keep", String(keep)]]);
      const { version, predictions } = await getJson("predict", { method: "POST", body, ...options });
      return { version, row: predictions[0] };
    } catch (error) {
      if (error.images?.[0]?.error) error.message = error.images[0].error;
      throw error;
    }
  },

  /** The rows of a table of texts, as [{text, label}]. */
  async table(file, { labelled }) {
    const { rows } = await post("table", [["table", file], ["labelled", String(labelled)]]);
    return rows.map(({ label, ...row }) => ({ text: row[reads.one], label }));
  },

  /** Begin a lesson: classes are [{name, files}]. */
  teach(classes, { yes = false, keep = false, sent = () => {}, signal }) {
    const images = classes.flatMap(({ name, files }) =>
      files.flatMap((file) => [[reads.many, file], ["labels", name]]),
    );
    const rest = [["keep_set_aside", String(keep)], ...confirmed(yes)];
    return upload("lessons", form([...images, ...rest]), sent, signal);
  },

  /** The states of a lesson, one after the other, until it has ended. */
  watch: (id) => events(`lessons/${id}/events`),
  cancel: (id) => send(`lessons/${id}`, { method: "DELETE" }),

  /** Teach one image at once, as {model, row}; `was` is what it had been taught as. */
  async correct(file, label, { was = null, yes = false } = {}) {
    const { row, ...model } = await post("correct", [[reads.one, file], ["label", label], ["was", was], ...confirmed(yes)]);
    return { model, row };
  },

  // Each gives the model as it is afterwards.
  undo: () => getJson("undo", { method: "POST" }),
  rename: (name, to, { yes = false } = {}) => sendJson("POST", "rename", { class: name, to, ...json(yes) }),
  forget: (name) => sendJson("POST", "forget", { class: name }),
  merge: (file, { yes = false } = {}) => post("merge", [["model", file], ...confirmed(yes)]),

  /** The model's file. */
  download: async () => (await send("model/file")).blob(),

  /** What waits to be named. */
  inbox: () => getJson("inbox"),
  inboxPicture: async (id) => (await send(`inbox/${encodeURIComponent(id)}`)).blob(),
  inboxText: async (id) => (await send(`inbox/${encodeURIComponent(id)}`)).text(),
  inboxTeach: (ids, label, { yes = false } = {}) => sendJson("POST", "inbox/teach", { ids, label, ...json(yes) }),
  inboxThrowAway: (ids) => sendJson("DELETE", "inbox", { ids }),
};
