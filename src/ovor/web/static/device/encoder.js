// The encoder: views in, features out, by onnxruntime-web. WebGPU where the browser has a real one, and
// only if it computes what it should; else WASM with SIMD, and with threads where the page may have them.

const TOLERANCE = 1e-4;
const MOST_THREADS = 4; // more only wait for each other with networks as small as these

export class Encoder {
  constructor(ort, session, about, words) {
    Object.assign(this, { ort, session, about, words });
    this.last = Promise.resolve(); // one run at a time: an engine takes no second
  }

  /** Open the encoder of a page with this manifest; `tell` hears how many bytes have come, of how many. */
  static async open(base, { encoder: about, files }, tell = () => {}) {
    const engines = (await hasGpu()) ? ["webgpu", "wasm"] : ["wasm"];
    const heard = counter(["encoder.onnx", `runtime/${engines[0]}/engine.wasm`], files, tell);
    const load = (name) => bytesOf(base, name, heard);
    const early = load(`runtime/${engines[0]}/engine.wasm`); // beside the encoder, not after it
    early.catch(() => {}); // it is asked for below
    const [content, check] = await Promise.all([load("encoder.onnx"), bytesOf(base, "encoder.check")]);
    const wanted = new Float32Array(check.buffer);
    const tried = [];
    for (const engine of engines) {
      try {
        const binary = engine === engines[0] ? early : load(`runtime/${engine}/engine.wasm`);
        const found = await started(engine, base, { content, binary: await binary }, about);
        const apart = difference(await found.features([pattern(about.size)]), wanted);
        if (apart <= TOLERANCE) return found;
        tried.push(`${engine} differs by ${apart.toExponential(1)}`);
      } catch (error) {
        tried.push(`${engine}: ${error.message}`);
      }
    }
    throw new Error(`This browser cannot compute with the encoder (${tried.join("; ")}): update it, or use another.`);
  }

  /** The features of some views, one Float32Array for all. */
  features(views) {
    const run = this.last.then(() => this.run(views));
    this.last = run.catch(() => {});
    return run;
  }

  async run(views) {
    const { size, width } = this.about;
    const all = new Uint8Array(views.length * size * size * 3);
    views.forEach((view, i) => all.set(view, i * view.length));
    const input = new this.ort.Tensor("uint8", all, [views.length, size, size, 3]);
    const { features } = await this.session.run({ views: input });
    const found = Float32Array.from(await features.getData());
    features.dispose();
    if (found.length !== views.length * width) throw new Error("the encoder gave features of another width");
    return found;
  }
}

async function started(engine, base, { content, binary }, about) {
  const at = (name) => new URL(`runtime/${engine}/${name}`, base).href;
  const ort = await import(at("ort.js"));
  const threads = engine === "wasm" && self.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
  Object.assign(ort.env.wasm, {
    numThreads: threads,
    wasmPaths: { mjs: at("engine.js"), wasm: at("engine.wasm") },
    wasmBinary: binary.buffer, // whatever its server calls it
  });
  const session = await ort.InferenceSession.create(content, { executionProviders: [engine], logSeverityLevel: 3 });
  const words = engine === "webgpu" ? "WebGPU" : `WASM with SIMD${threads > 1 ? ` and ${threads} threads` : ""}`;
  return Object.assign(new Encoder(ort, session, about, words), { engine, threads });
}

/** Whether there is a graphics processor; one that is only played by the processor is no gain. */
async function hasGpu() {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  return Boolean(adapter) && !(adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false);
}

/** A view by which an engine is tried, the same as Python's. */
export function pattern(size) {
  const view = new Uint8Array(size * size * 3);
  let at = 0;
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      for (let channel = 0; channel < 3; channel += 1) view[at++] = (3 * x + 5 * y + 80 * channel) % 256;
    }
  }
  return view;
}

function difference(found, wanted) {
  let worst = found.length === wanted.length ? 0 : Infinity;
  for (let i = 0; i < wanted.length; i += 1) {
    const apart = Math.abs(found[i] - wanted[i]) / Math.max(1, Math.abs(wanted[i]));
    if (!(apart <= worst)) worst = Number.isNaN(apart) ? Infinity : apart;
  }
  return worst;
}

/** A function that hears of bytes as they come, and tells how many there are of those of some files. */
function counter(names, files, tell) {
  const total = names.reduce((sum, name) => sum + files[name].bytes, 0);
  let come = 0;
  return (bytes) => {
    come = Math.min(total, come + bytes);
    tell({ come, total });
  };
}

/** The content of a file of the page; `heard` gets the number of bytes of each piece. */
export async function bytesOf(base, name, heard = () => {}) {
  const answer = await fetch(new URL(name, base));
  if (!answer.ok) throw new Error(`The file ${name} of this page is missing: put the whole exported folder on the server.`);
  const counted = new TransformStream({
    transform(piece, next) {
      heard(piece.length);
      next.enqueue(piece);
    },
  });
  return new Uint8Array(await new Response(answer.body.pipeThrough(counted)).arrayBuffer());
}
