// Keeps the files of an exported page, so that it works without a network. VERSION is the digest of its
// manifest, POLICY its content security policy; the export writes both above these lines.
//
// Every answer gets that policy, and the two headers by which a browser lets a page have threads: a
// plain file server sends none of them.

const HEADERS = {
  "Content-Security-Policy": `${POLICY}; frame-ancestors 'none'`,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", json: "application/json", wasm: "application/wasm", txt: "text/plain; charset=utf-8" };
const OURS = `ovor ${registration.scope} `; // other pages of this host keep theirs
const CACHE = OURS + VERSION;
const address = (name) => new URL(name, registration.scope).href;

async function digest(content) {
  const found = await crypto.subtle.digest("SHA-256", content);
  return Array.from(new Uint8Array(found), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The content of a file as its server has it now, if it is the one that was exported. */
async function fetched(name, sha256) {
  const answer = await fetch(address(name), { cache: "no-cache" });
  const content = await answer.arrayBuffer();
  if (!answer.ok || (await digest(content)) !== sha256) throw new Error(`${name} is not the one of this export`);
  return content;
}

/** Put a file into the cache: from an older one that has the same, or from the server. */
async function keep(cache, name, sha256) {
  const before = await caches.match(address(name), { ignoreSearch: true });
  const old = before?.headers.get("X-Digest") === sha256 ? await before.arrayBuffer() : null;
  const content = old ?? (await fetched(name, sha256));
  const type = TYPES[name.split(".").at(-1)] ?? "application/octet-stream";
  const headers = { ...HEADERS, "Content-Type": type, "Content-Length": content.byteLength, "X-Digest": sha256 };
  await cache.put(address(name), new Response(content, { headers }));
}

async function manifest() {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(address("manifest.json"));
  return (kept ?? (await fetch(address("manifest.json"), { cache: "no-cache" }))).json();
}

/** Keep what every browser needs; an engine's files are kept when the page has chosen one. */
async function install() {
  const cache = await caches.open(CACHE);
  await keep(cache, "manifest.json", VERSION);
  const files = Object.entries((await manifest()).files).filter(([, { engine }]) => !engine);
  await Promise.all(files.map(([name, { sha256 }]) => keep(cache, name, sha256)));
}

async function keepEngine(wanted) {
  const cache = await caches.open(CACHE);
  for (const [name, { engine, sha256 }] of Object.entries((await manifest()).files)) {
    if (engine === wanted && !(await cache.match(address(name)))) await keep(cache, name, sha256);
  }
}

async function activate() {
  for (const name of await caches.keys()) if (name.startsWith(OURS) && name !== CACHE) await caches.delete(name);
  await clients.claim();
}

async function answer(request) {
  const cache = await caches.open(CACHE);
  const page = request.mode === "navigate" && new URL(request.url).pathname === new URL(registration.scope).pathname;
  const kept = await cache.match(page ? address("index.html") : request, { ignoreSearch: true });
  if (kept) return kept;
  const found = await fetch(request);
  if (found.type !== "basic" || !found.body) return found;
  const headers = new Headers(found.headers);
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  return new Response(found.body, { status: found.status, statusText: found.statusText, headers });
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(registration.scope)) event.respondWith(answer(event.request));
});
self.addEventListener("message", (event) => {
  const { keep: engine, replace } = event.data;
  if (replace) self.skipWaiting();
  if (!engine) return;
  const done = keepEngine(engine).then(
    () => event.ports[0].postMessage({ kept: true }),
    () => event.ports[0].postMessage({ kept: false }),
  );
  event.waitUntil(done);
});
