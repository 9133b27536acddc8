// Requests to the server: the token, waiting where it asks for that, and noticing that it is gone.

import { byId, sleep } from "./dom.js";

const TOKEN = "ovor-token"; // in sessionStorage: it ends with the tab
const BROKEN = "The connection broke while this was sent: try again.";

/** An answer that is not the one hoped for, with the server's sentence. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error ?? `The server answered ${status}, without saying why: see its log.`);
    this.status = status;
    this.images = body?.images ?? [];
    this.alike = body?.alike ?? []; // names that look like known ones, which must be confirmed
  }
}

/** The answer to a request. Asks for a token, waits when told to, and while the server is gone. */
export async function send(path, { waiting = () => {}, headers = {}, ...options } = {}) {
  for (let broken = 0; ; ) {
    const used = token();
    let answer;
    try {
      answer = await fetch(path, { ...options, headers: { ...headers, ...authorisation(used) }, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (await away()) continue;
      broken += 1;
      if (broken > 2) throw new Refused(0, { error: BROKEN });
      continue;
    }
    if (answer.ok) return answer;
    if (answer.status === 401) await newToken(used);
    else if (answer.status === 429) await patience(answer.headers.get("Retry-After"), waiting);
    else throw new Refused(answer.status, await answer.json().catch(() => null));
  }
}

export const getJson = async (path, options) => (await send(path, options)).json();

/** Send a value as JSON, and get one back. */
export const sendJson = (method, path, value) =>
  getJson(path, { method, body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

/** A POST whose upload can be watched, which fetch cannot do. */
export async function upload(path, form, sent, signal) {
  for (;;) {
    const used = token();
    const request = await posted(path, form, used, sent, signal);
    let body = null;
    try {
      body = JSON.parse(request.responseText);
    } catch {
      // not ours: a proxy's page, perhaps
    }
    if (request.status === 401) await newToken(used);
    else if (request.status >= 200 && request.status < 300) return body;
    else throw new Refused(request.status, body);
  }
}

function posted(path, form, used, sent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(authorisation(used))) {
      request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => sent(event.loaded / event.total);
    request.onload = () => resolve(request);
    request.onerror = () => {
      away();
      reject(new Refused(0, { error: BROKEN }));
    };
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** The values of a stream of server-sent events, each a line of JSON. */
export async function* events(path) {
  const answer = await send(path);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield JSON.parse(line.slice(5));
  }
}

async function patience(header, waiting) {
  for (let left = Math.max(1, Number(header) || 1); left > 0; left -= 1) {
    waiting(left);
    await sleep(1);
  }
}

// --- the server is gone

let waitingForServer = null;

/** Whether the server was gone; resolves when it is back. */
function away() {
  waitingForServer ??= untilBack().finally(() => {
    waitingForServer = null;
  });
  return waitingForServer;
}

async function untilBack() {
  for (let tries = 0; ; tries += 1) {
    const answer = await fetch("healthz", { cache: "no-store" }).catch(() => null);
    if (answer?.ok) {
      byId("gone").hidden = true;
      return tries > 0;
    }
    byId("gone").textContent = answer
      ? "The server is stopping. This page goes on by itself when it is started again."
      : "The server does not answer. This page tries again every two seconds; is it still running?";
    byId("gone").hidden = false;
    await sleep(2);
  }
}

// --- the token

const token = () => sessionStorage.getItem(TOKEN);
const authorisation = (used) => (used ? { Authorization: `Bearer ${used}` } : {});

let asking = null;

async function newToken(used) {
  if (used !== token()) return; // another request has asked meanwhile
  asking ??= ask(Boolean(used)).finally(() => {
    asking = null;
  });
  await asking;
}

function ask(wrong) {
  const dialog = byId("token");
  const field = byId("token-value");
  const complaint = byId("token-wrong");
  field.value = "";
  complaint.textContent = wrong ? "That is not the token of this server." : "";
  return new Promise((resolve) => {
    dialog.oncancel = (event) => event.preventDefault(); // without it nothing works
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      const given = field.value.trim();
      if (!/^[\x21-\x7e]+$/.test(given)) {
        complaint.textContent = "A token has letters, digits and signs, without spaces.";
        return;
      }
      sessionStorage.setItem(TOKEN, given);
      dialog.onclose = null;
      dialog.close();
      resolve();
    };
    dialog.onclose = () => dialog.showModal(); // browsers close it at the second Escape
    dialog.showModal();
    field.focus();
  });
}
