// Memories that a test has made, by name, and whatever module it wants to call.

const memories = new Map();

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** What Python has sent: bytes and features come in base64. */
export function received(value) {
  if (Array.isArray(value)) return value.map(received);
  if (value === null || typeof value !== "object") return value;
  if (typeof value.$bytes === "string") return bytes(value.$bytes);
  if (typeof value.$floats === "string") return new Float32Array(bytes(value.$floats).buffer);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, received(inner)]));
}

/** What goes back to Python. */
function sent(value) {
  if (value instanceof Uint8Array) {
    let text = "";
    for (let at = 0; at < value.length; at += 8192) text += String.fromCharCode(...value.subarray(at, at + 8192));
    return { $bytes: btoa(text) };
  }
  if (value instanceof Float64Array) return [...value];
  if (value instanceof Set) return [...value];
  return Array.isArray(value) ? value.map(sent) : (value ?? null);
}

async function answered(run) {
  try {
    return { found: sent(await run()) };
  } catch (error) {
    const { message, status = null, alike = [], stack } = error;
    return { error: { kind: error.constructor.name, message, status, alike, stack } };
  }
}

/** Call a method of a memory; `empty` and `open` make it. */
export const perform = (name, method, given) =>
  answered(async () => {
    const args = received(given);
    if (method === "empty" || method === "open") {
      const { Memory } = await import("/static/device/memory.js");
      memories.set(name, await Memory[method](...args));
      return null;
    }
    return memories.get(name)[method](...args);
  });

/** Call a function of a module. */
export const call = (module, name, given) =>
  answered(async () => (await import(`/static/device/${module}.js`))[name](...received(given)));

/** Call a function of a module once for each list of arguments. */
export async function callEach(module, name, all) {
  const run = (await import(`/static/device/${module}.js`))[name];
  return Promise.all(all.map((given) => answered(() => run(...received(given)))));
}

/** For each file: what opening it says, or what it is if it is saved again. */
export async function openEach(files) {
  const { Memory } = await import("/static/device/memory.js");
  const found = [];
  for (const file of files) found.push(await answered(async () => (await Memory.open(bytes(file))).file()));
  return found;
}
