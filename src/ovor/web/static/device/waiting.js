// Images that the model was not sure about: they wait in this tab to be named.

import { groupsOf } from "./likeness.js";

// Confidences are calibrated: at the first, one answer in four is wrong.
const [DOUBTFUL, SURE] = [0.75, 0.9];

export class Waiting {
  constructor(limits) {
    this.limits = limits;
    this.byId = new Map(); // the oldest first
    this.bytes = 0;
  }

  /** Keep an image if its answer is not sure; the same again is the newest, and there once. */
  consider(id, file, features, row) {
    if (!row.unknown && row.confidence >= DOUBTFUL) return;
    this.remove(id);
    this.byId.set(id, { id, file, features, row });
    this.bytes += file.size;
    for (const oldest of this.byId.keys()) {
      if (this.byId.size <= this.limits.inbox && this.bytes <= this.limits.inbox_bytes) break;
      this.remove(oldest);
    }
  }

  remove(id) {
    const kept = this.byId.get(id);
    if (!kept) return;
    this.byId.delete(id);
    this.bytes -= kept.file.size;
  }

  /** Take other answers to all that waits; what the model is sure of by now leaves. */
  judgedAgain(classify) {
    const all = [...this.byId.values()];
    if (!all.length) return;
    const width = all[0].features.length;
    const features = new Float32Array(all.length * width);
    all.forEach((kept, i) => features.set(kept.features, i * width));
    classify(features).forEach((row, i) => {
      all[i].row = row;
      if (!row.unknown && row.confidence >= SURE) this.remove(all[i].id);
    });
  }

  /** What the page shows; `usual` is the squared distance that is usual within a class. */
  shown(usual) {
    const all = [...this.byId.values()].reverse();
    const numbers = groupsOf(all.map(({ features }) => features), usual);
    const images = all.map(({ id, file, row }, i) => ({
      id,
      image: file.name,
      label: row.label,
      likeliest: row.likeliest,
      confidence: row.confidence,
      group: numbers[i],
    }));
    const groups = [...new Set(numbers)].sort((a, b) => a - b).map((group) => {
      const own = images.filter((image) => image.group === group);
      return { group, images: own.map(({ id }) => id), likeliest: most(own.map(({ likeliest }) => likeliest)) };
    });
    return { kept: "tab", most: this.limits.inbox, images, groups };
  }
}

/** The most frequent name, of equally frequent ones the first. */
function most(names) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}
