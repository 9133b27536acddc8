// One lesson as it goes on, on the device: look at every image, add it up, solve.

const AT_ONCE = 8; // images that go through the encoder together
const LOOKING = 0.9; // of the work, the share that looking at the images is

/** Why a lesson has ended before its time. */
class Cancelled extends Error {}

export class Lesson {
  constructor(service, classes, { yes, tell }) {
    Object.assign(this, { service, classes, yes, tell });
    this.id = Math.random().toString(16).slice(2, 10);
    this.going = true;
    this.stopped = new Promise((_, reject) => {
      this.cancel = () => {
        this.cancelled = true;
        reject(new Cancelled());
      };
    });
    this.stopped.catch(() => {}); // it is looked at by and by
    this.leaves = []; // images of the inbox that leave it when they are learned
    this.begun = performance.now();
    this.said = { state: "learning", doing: "looking at the images", progress: 0, error: null, images: [], report: null, accuracy: null, lesson: null };
  }

  /** What GET /lessons/{lesson} of a server would say. */
  state() {
    const seconds = (performance.now() - this.begun) / 1000;
    const { progress } = this.said;
    const left = this.going && progress > 0.02 ? (seconds * (1 - progress)) / progress : null;
    const classes = this.classes.map(({ name, files }) => ({ name, images: files.length })).sort((a, b) => (a.name < b.name ? -1 : 1));
    return { id: this.id, classes, notes: [], seconds, seconds_left: left, ...this.said };
  }

  says(more) {
    Object.assign(this.said, more);
    this.tell(this.state());
  }

  async run() {
    try {
      await this.loaded();
      const taught = await this.look();
      const report = await this.learn(taught);
      this.going = false;
      this.says({ state: "done", doing: "done", progress: 1, ...report });
    } catch (error) {
      this.going = false;
      if (error instanceof Cancelled) this.says({ state: "cancelled", doing: "cancelled" });
      else this.says({ state: "failed", doing: "failed", error: error.message });
    }
  }

  /** Wait until the page has what it looks at images with; the person need not. */
  async loaded() {
    if (!this.service.loaded) this.says({ doing: "waiting for the rest of this page to load" });
    await Promise.race([this.service.encoder, this.stopped]);
    this.begun = performance.now();
    this.says({ doing: "looking at the images" });
  }

  /** The features of all images by class; all that cannot be read are noted before it ends. */
  async look() {
    const all = this.classes.flatMap(({ files }, number) => files.map((file) => ({ number, file })));
    const faults = [];
    for (let at = 0; at < all.length; at += AT_ONCE) {
      const some = all.slice(at, at + AT_ONCE);
      await this.lookAt(some, at, faults);
      this.check();
      this.says({ progress: (LOOKING * (at + some.length)) / all.length });
    }
    if (faults.length) {
      this.said.images = faults;
      throw new Error(faults[0].error);
    }
    return this.classes.map(({ name }, number) => {
      const own = all.filter((one) => one.number === number);
      return { name, features: own.map((one) => one.features), digests: own.map((one) => one.digest), images: own.map((one) => one.file.name) };
    });
  }

  async lookAt(some, at, faults) {
    const views = [];
    for (const [i, one] of some.entries()) {
      try {
        one.seen = await this.service.view(one.file);
        views.push(one);
      } catch (error) {
        faults.push({ index: at + i, name: one.file.name, error: error.message });
      }
    }
    const found = views.length ? await this.service.featuresOf(views.map(({ seen }) => seen)) : [];
    views.forEach((one, i) => Object.assign(one, { features: found[i], digest: one.seen.digest, seen: null }));
  }

  check() {
    if (this.cancelled) throw new Cancelled();
  }

  /** Hear what the page has said while this worker was solving. */
  async settled() {
    await new Promise((done) => setTimeout(done));
    this.check();
  }

  async learn(taught) {
    const { service, yes } = this;
    this.says({ doing: "learning", progress: LOOKING });
    const progress = (share) => this.says({ progress: LOOKING + (1 - LOOKING) * share });
    const report = await service.memory.learn(taught, { yes, progress, settle: () => this.settled() });
    for (const id of this.leaves) service.waiting.remove(id);
    service.changed();
    return { report, accuracy: report.expected, lesson: report.lesson, notes: report.notes };
  }
}
