// One more lesson for a model of exact sums: new classes, and more images of known ones.

import { Calibration, calibrated } from "./calibration.js";
import { Refused } from "./errors.js";
import { sum } from "./linear.js";
import { Moments, onGrid, WEIGHT_STEPS } from "./moments.js";
import { asName, checkName, checkNewNames, listed } from "./names.js";
import { olderClasses } from "./older.js";
import { byCodePoint } from "./python_json.js";
import { estimated, lessonReport, withVerdict } from "./report.js";
import { nearest } from "./rounding.js";
import { hex } from "./sha256.js";
import { solve, withoutEach } from "./solving.js";
import { imagesOf, namesOf, withMore } from "./tasks.js";

const FARTHEST = 1024; // of a feature of an image that is judged, as Python keeps it

/** The images of [{name, features, images, digests, weights}] one after the other, classes by name. */
export function inOrder(given) {
  const found = given.flatMap(({ name, features, images = [], digests = [], weights = null }) =>
    features.map((own, i) => ({
      name: asName(name),
      features: own,
      image: images[i] ?? String(i),
      key: digests[i] ? hex(digests[i]) : null,
      weight: weights ? checkedWeight(weights[i]) : 1,
    })),
  );
  if (!found.length) throw new Refused("There is no image to learn from: give some.");
  return found.sort((a, b) => byCodePoint(a.name, b.name)); // which leaves the images of a class in order
}

function checkedWeight(weight) {
  if (!(Number.isFinite(weight) && weight >= 0)) throw new Refused("A weight is negative or no number: give numbers from 0 on.");
  return nearest(weight * WEIGHT_STEPS) / WEIGHT_STEPS;
}

/** Refuse names that no class can have, and ask about those that are much like others. */
export function checkNames(given, known, yes) {
  const names = given.map(asName);
  names.forEach(checkName);
  checkNewNames(names, known, yes);
}

/** The features of images on the grid, one after the other; each must have as many numbers. */
export function gridOf(images, width) {
  const found = new Float64Array(images.length * width);
  images.forEach(({ features, image }, i) => {
    if (features.length !== width || !features.every(Number.isFinite)) {
      throw new Refused(`The network says nothing of use about ${image}: give another image.`);
    }
    found.set(onGrid(features), i * width);
  });
  return found;
}

/** The state after a lesson, and what the lesson says of itself. */
export function taught(kernel, state, given, { yes = false, once = false, progress = () => {} } = {}) {
  const known = namesOf(state?.tasks ?? []);
  checkNames(given.map(({ name }) => name), known, yes);
  const all = inOrder(given);
  const width = state?.moments.width ?? all[0].features.length;
  const digests = state?.digests ?? (once ? new Map() : null);
  const { fresh, leftOut } = sorted(all, digests);
  const added = [...new Set(all.map(({ name }) => name))].filter((name) => !known.includes(name));
  const names = [...known, ...added];
  const rows = fresh.map(({ name }) => names.indexOf(name));
  checkFresh(fresh, leftOut, added);
  const features = gridOf(fresh, width);
  const weights = fresh.some(({ weight }) => weight !== 1) ? fresh.map(({ weight }) => weight) : null;
  const before = (state?.moments ?? Moments.empty(width)).grown(added.length);
  const moments = before.plusImages(kernel, features, rows, weights);
  if (moments.counts.some((count) => !(count > 0))) {
    throw new Refused("A class has no weight at all: give its images more, or leave it out.");
  }
  const often = new Map();
  for (const name of names) {
    const count = fresh.filter((one) => one.name === name).length;
    if (count) often.set(name, count);
  }
  let tasks = withMore(state?.tasks ?? [], often);
  const now = solve(kernel, moments, imagesOf(tasks, moments), state?.novelty, (share) => progress(0.9 * share));
  const learned = sum(moments.counts) - sum(before.counts);
  const judging = { now, fresh, features, rows, names, learned, past: state?.calibration ?? Calibration.empty() };
  const { calibration, report } = judged(judging);
  report.left_out = leftOut.map(({ image }) => image);
  report.shortened = 0; // which texts can be
  const older = known.length && added.length ? lostTo(now, names, added.length, report) : [];
  const whole = withVerdict(report, estimated(older), names.length);
  if (added.length) tasks = [...tasks.slice(0, -1), { ...tasks.at(-1), accuracy: whole.expected }];
  const keys = fresh.map(({ key }, i) => [key, rows[i]]);
  const after = {
    width,
    moments,
    head: now.head,
    tasks,
    novelty: now.novelty,
    calibration,
    digests: digests && new Map([...digests, ...keys]),
    expected: new Map([...(state?.expected ?? []), ...expectations(whole)]),
    lesson: "",
  };
  progress(1);
  return { state: after, report: { ...whole, notes: notesOf(all, known), lesson: added.length ? tasks.length : null } };
}

/** Which images are new; where digests are kept others are left out. */
function sorted(all, digests) {
  const seen = new Set();
  const [fresh, leftOut] = [[], []];
  for (const one of all) {
    const old = digests && one.key !== null && (digests.has(one.key) || seen.has(one.key));
    (old ? leftOut : fresh).push(one);
    seen.add(one.key);
  }
  if (digests && all.some(({ key }) => key === null)) throw new Refused("This model knows images by their digests: give those too.");
  return { fresh, leftOut };
}

function checkFresh(fresh, leftOut, added) {
  if (!fresh.length) throw new Refused("Every image here is learned already: there is nothing new to learn.");
  const without = added.filter((name) => !fresh.some((one) => one.name === name));
  if (without.length && leftOut.length) {
    throw new Refused(
      `All images of ${listed(without)} were learned already, as another class: correct them, or leave the class out.`,
    );
  }
}

/** The calibration after a lesson, and what the lesson says of itself. */
function judged({ now, fresh, features, rows, names, learned, past }) {
  const { counts, width } = now.mixture.discriminant.scatter;
  const able = rows.map((_, i) => i).filter((i) => counts[rows[i]] > 1); // of one image there is no mean without it
  const ofThem = able.map((i) => rows[i]);
  const taughtRows = [...new Set(rows)].sort((a, b) => a - b);
  let calibration = past;
  let shares = [];
  if (able.length) {
    const kept = new Float64Array(able.length * width);
    able.forEach((i, at) => kept.set(features.subarray(i * width, (i + 1) * width), at * width));
    for (let i = 0; i < kept.length; i += 1) kept[i] = Math.min(Math.max(kept[i], -FARTHEST), FARTHEST - 1 / 32);
    const { logits, distances } = withoutEach(now, kept, ofThem);
    const alike = ofThem.map((row) => 1 / counts[row]); // every class counts the same
    const mean = sum(alike) / alike.length;
    const old = Math.max(1 - learned / sum(counts), 0);
    calibration = past.withLesson(distances, logits, ofThem, alike.map((x) => x / mean), old);
    const confidence = calibration.confidence();
    shares = logits.map((row) => calibrated(row, confidence));
  }
  const where = able.map((i) => fresh[i].image);
  return { calibration, report: lessonReport({ shares, rows: ofThem, names, counts, where, taught: taughtRows }) };
}

/** What classes that are not of the lesson lost to those that are new. */
function lostTo({ mixture, head }, names, added, report) {
  const taughtRows = new Map(report.classes.map((found) => [names.indexOf(found.class), found.expected]));
  const expected = new Map([...taughtRows].filter(([, share]) => share !== null).map(([row, share]) => [row, share / 100]));
  const rest = names.map((_, row) => row).filter((row) => row < names.length - added && !taughtRows.has(row));
  return olderClasses(mixture.discriminant.scatter, head, names, added, expected, rest);
}

const expectations = (report) =>
  report.classes.map((found) => [
    found.class,
    { expected: found.expected, confusedWith: found.confused_with.map((other) => other.class) },
  ]);

/** What whoever teaches should know, a sentence each. */
function notesOf(all, known) {
  const counts = new Map();
  for (const { name } of all) counts.set(name, (counts.get(name) ?? 0) + 1);
  const single = [...counts.keys()].filter((name) => counts.get(name) === 1 && !known.includes(name));
  const notes = single.length ? [`${listed(single)}: one image only, which is little to learn a class from.`] : [];
  if (counts.size === 1 && !known.length) {
    notes.push("One class alone has nothing to be told apart from: where you can, learn several together.");
  }
  return notes;
}
