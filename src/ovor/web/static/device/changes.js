// What else a model of exact sums can do: take images back, correct, forget, rename, merge. All of it
// is adding and subtracting sums. Each gives another state; the one that it is given stays as it is.

import { Refused } from "./errors.js";
import { FEATURE_STEPS } from "./moments.js";
import { asName, checkName, checkNewNames, quoted, rowsOf } from "./names.js";
import { short } from "./rounding.js";
import { hex } from "./sha256.js";
import { solve } from "./solving.js";
import { imagesOf, namesOf, renamedClass, withFewer, withMore, withoutClass } from "./tasks.js";
import { gridOf, inOrder } from "./teaching.js";

const MOST_CLASSES = 5000; // of two models together

/** The state with other sums, without the classes that have no image left. */
function changed(kernel, state, { moments, tasks, digests, calibration = state.calibration, expected = state.expected }, progress) {
  checkLeft(moments, Math.max(...state.moments.counts));
  for (let row = moments.counts.length - 1; row >= 0; row -= 1) {
    if (moments.counts[row] !== 0) continue;
    tasks = withoutClass(tasks, namesOf(tasks)[row]);
    moments = moments.without(row);
    digests = digests && withoutRow(digests, row);
  }
  const { head, novelty } = solve(kernel, moments, imagesOf(tasks, moments), state.novelty, progress);
  const kept = new Set(namesOf(tasks));
  const told = [...expected].filter(([name]) => kept.has(name)); // a name that is gone must not stay
  const left = told.map(([name, known]) => [name, { ...known, confusedWith: known.confusedWith.filter((n) => kept.has(n)) }]);
  return { ...state, moments, head, novelty, tasks, digests, calibration, expected: new Map(left), lesson: "" };
}

/** Take images back that were learned: [{name, features, images, digests}]. */
export function unlearned(kernel, state, given, progress) {
  const names = namesOf(state.tasks);
  const all = inOrder(given);
  const { width } = state.moments;
  const rows = rowsOf(all.map(({ name }) => name), names);
  checkEnough(rows, state.moments.counts, names);
  const features = gridOf(all, width);
  all.forEach(({ key, image }, i) => checkLearned(state.digests, key, rows[i], image, names));
  const gone = new Set(all.map(({ key }) => key));
  const digests = state.digests && new Map([...state.digests].filter(([key]) => !gone.has(key)));
  const tasks = withFewer(state.tasks, rows.map((row) => names[row]));
  const moments = state.moments.plusImages(kernel, features, rows, rows.map(() => -1));
  return changed(kernel, state, { moments, tasks, digests }, progress);
}

/** Count an image as another class: one that was learned as `was`, or a new one without it. */
export function corrected(kernel, state, features, digest, given, { was = null, yes = false, progress } = {}) {
  const names = namesOf(state.tasks);
  const name = asName(given);
  checkName(name);
  checkNewNames([name], names, yes);
  const { width } = state.moments;
  const from = was === null || was === undefined ? null : rowsOf([asName(was)], names)[0];
  if (from !== null && names[from] === name) throw new Refused(`The images are ${quoted(name)} already: give another class.`);
  if (from !== null) checkEnough([from], state.moments.counts, names);
  const row = names.includes(name) ? names.indexOf(name) : names.length;
  const grid = gridOf([{ features, image: "this image" }], width);
  let moments = state.moments.grown(row < names.length ? 0 : 1);
  let { digests, tasks } = state;
  const key = digest ? hex(digest) : null;
  if (digests && !key) throw new Refused("This model knows images by their digests: give that too.");
  if (from !== null) {
    checkLearned(digests, key, from, "this image", names);
    moments = moments.moved(grid, from, row);
    tasks = withFewer(tasks, [names[from]]);
  } else {
    if (digests?.has(key)) {
      throw new Refused(`This image was learned before, as ${quoted(names[digests.get(key)])}: say so, or leave it out.`);
    }
    moments = moments.plusImages(kernel, grid, [row]);
  }
  digests = digests && new Map([...digests, [key, row]]);
  return changed(kernel, state, { moments, tasks: withMore(tasks, new Map([[name, 1]])), digests }, progress);
}

/** Take a class out; how its images scattered stays. */
export function forgotten(kernel, state, given, progress) {
  const names = namesOf(state.tasks);
  const name = names.includes(given) ? given : asName(given);
  const [row] = rowsOf([name], names);
  if (names.length === 1) {
    const why = "is the only class, and a model knows at least one: teach another first";
    throw new Refused(`${quoted(name)} ${why}.`, { status: 409 });
  }
  const parts = { moments: state.moments.without(row), tasks: withoutClass(state.tasks, name) };
  return changed(kernel, state, { ...parts, digests: state.digests && withoutRow(state.digests, row) }, progress);
}

/** Give a class another name. */
export function renamed(state, given, to, yes) {
  const names = namesOf(state.tasks);
  const old = names.includes(given) ? given : asName(given);
  const name = asName(to);
  checkName(name);
  rowsOf([old], names);
  if (names.includes(name)) {
    throw new Refused(`There is a class ${quoted(name)} already: choose another name.`, { status: 409 });
  }
  checkNewNames([name], names.filter((own) => own !== old), yes);
  const swap = (own) => (own === old ? name : own);
  const told = [...state.expected].map(([own, known]) => [swap(own), { ...known, confusedWith: known.confusedWith.map(swap) }]);
  return { ...state, tasks: renamedClass(state.tasks, old, name), expected: new Map(told) };
}

/** Add what another model has learned, which must have been with the same encoder. */
export function merged(kernel, state, other, yes, progress) {
  if (!other.state.moments) {
    const remedy = "use the model that it was exported from";
    throw new Refused(`This file is for predicting only, without the sums that merging needs: ${remedy}.`);
  }
  const theirs = namesOf(other.state.tasks);
  const names = namesOf(state.tasks);
  checkNewNames(theirs, names, yes);
  const added = theirs.filter((name) => !names.includes(name));
  const all = [...names, ...added];
  if (all.length > MOST_CLASSES) {
    const [found, most] = [all.length, MOST_CLASSES].map((count) => count.toLocaleString("en"));
    throw new Refused(`The models have ${found} classes together, and at most ${most} are merged here: use \`ovor merge\`.`);
  }
  const rows = theirs.map((name) => all.indexOf(name));
  const counts = other.state.tasks.flatMap(({ classes, images }) => classes.map((name, i) => [name, images[i]]));
  const ours = state.digests;
  const kept = other.state.digests;
  const digests = ours && kept && new Map([...[...kept].map(([key, row]) => [key, rows[row]]), ...ours]);
  const alike = (state.novelty.doubt > 0) === (other.state.novelty.doubt > 0); // else distances are of another kind
  const parts = {
    moments: state.moments.grown(added.length).plus(other.state.moments, rows),
    tasks: withMore(state.tasks, new Map(counts)),
    digests,
    calibration: state.calibration.plus(alike ? other.state.calibration : other.state.calibration.withoutDistances()),
    expected: new Map([...other.state.expected, ...state.expected]),
  };
  return changed(kernel, state, parts, progress);
}

const withoutRow = (digests, row) =>
  new Map([...digests].filter(([, at]) => at !== row).map(([key, at]) => [key, at - (at > row ? 1 : 0)]));

// --- what cannot be done, each in a sentence

function checkEnough(rows, counts, names) {
  const taken = new Float64Array(counts.length);
  for (const row of rows) taken[row] += 1;
  const over = taken.findIndex((count, row) => count > counts[row]);
  if (over >= 0) {
    throw new Refused(
      `${quoted(names[over])} was learned from ${short(counts[over])} images, so ${short(taken[over])} cannot be taken ` +
        "back: give only images that were learned.",
    );
  }
  if (taken.every((count, row) => count === counts[row])) throw new Refused("No class would be left: begin a new model instead.");
}

function checkLearned(digests, key, row, image, names) {
  if (digests && digests.get(key) !== row) {
    throw new Refused(`${image} was not learned as ${quoted(names[row])} since digests are kept: give only what was.`);
  }
}

/** Refuse what is left if it cannot be of images; another processor's features may differ by a step. */
function checkLeft({ counts, sums, second, width }, most) {
  const limit = most / FEATURE_STEPS;
  for (let j = 0; j < width; j += 1) {
    let scatter = second[j * width + j];
    for (let row = 0; row < counts.length; row += 1) {
      const own = sums[row * width + j];
      scatter -= own ** 2 / Math.max(counts[row], 1);
      if (counts[row] === 0 && Math.abs(own) > limit) throw notThose();
    }
    if (scatter < -limit) throw notThose();
  }
}

const notThose = () =>
  new Refused("These are not the images that were learned: give those, or forget the class without images.");
