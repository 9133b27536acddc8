// What a lesson says of itself: what to expect of each class, what is confused, what would help.
// In models of exact sums by leave-one-out: every image is named by a model that has learned all others.

import { argmax } from "./linear.js";
import { rounded, short } from "./rounding.js";

const ENOUGH = 90; // percent expected: no advice above
const LEAST = 10; // images that are asked for at once,
const MOST = 50;
const SURE = 0.9; // that it is another class, for an image to look mislabelled
const SHOWN = 20;
const GOOD = 0.75; // of the way from guessing to perfect
const POOR = 0.4;
const MUCH = 5; // points that older classes lost on average, for a lesson not to be good
const FEW = 20; // points between the ends of an interval that is called wide
const NORMAL = 1.959963984540054; // standard deviations that 95 % are within

/** All that judging a lesson's images says; `shares` are probabilities by image, `taught` the lesson's classes. */
export function lessonReport({ shares, rows, names, counts, where, taught }) {
  const answers = shares.map(argmax);
  const right = rows.filter((row, i) => answers[i] === row).length;
  return {
    by: "leave-one-out",
    judged: rows.length,
    expected: percent(right, rows.length),
    interval: interval(right, rows.length),
    chance: rounded(100 / Math.max(names.length, 1), 1),
    classes: taught.map((row) => ofClass(row, names, counts[row], answers.filter((_, i) => rows[i] === row))),
    pairs: pairs(answers, rows, names),
    suspects: suspects(shares, answers, rows, names, where),
  };
}

/** A report with what became of older classes, what all of it amounts to, and advice. */
export function withVerdict(report, older, classes) {
  const found = { ...report, older };
  found.verdict = verdict(found, classes);
  const helped = [...found.classes].sort((a, b) => (a.expected ?? 0) - (b.expected ?? 0));
  const lines = classes > 1 && found.judged ? helped.map(advice).filter(Boolean) : [];
  found.advice = [...general(found, classes), ...lines];
  return found;
}

/** What the sums say of older classes, and how far that goes. */
export function estimated(found) {
  if (!found.length) return { how: "none", lost: null, classes: [], note: "" };
  const lost = found.reduce((total, one) => total + one.lost, 0) / found.length;
  const note = "Estimated from the sums alone: right to about 5 points on average.";
  return { how: "estimated", lost: rounded(lost, 1), classes: found, note };
}

function ofClass(row, names, images, answers) {
  const right = answers.filter((answer) => answer === row).length;
  const often = new Map();
  for (const answer of answers) if (answer !== row) often.set(answer, (often.get(answer) ?? 0) + 1);
  const order = [...often.keys()].sort((a, b) => often.get(b) - often.get(a) || a - b).slice(0, 3);
  return {
    class: names[row],
    images,
    judged: answers.length,
    expected: percent(right, answers.length),
    interval: interval(right, answers.length),
    confused_with: order.map((other) => ({
      class: names[other],
      share: rounded((100 * often.get(other)) / answers.length, 1),
    })),
  };
}

const percent = (right, images) => (images ? rounded(100 * (right / images), 1) : null);

/** The percentages between which the true share lies, 19 times of 20: Wilson's interval. */
export function interval(right, images) {
  if (!images) return null;
  const [share, weight] = [right / images, NORMAL ** 2 / images];
  const middle = (share + weight / 2) / (1 + weight);
  const half = (NORMAL * Math.sqrt((share * (1 - share)) / images + weight / (4 * images))) / (1 + weight);
  return [Math.max(0, 100 * (middle - half)), Math.min(100, 100 * (middle + half))].map((end) => rounded(end, 1));
}

/** The pairs of classes that are taken for each other most often. */
function pairs(answers, rows, names) {
  const often = new Map();
  answers.forEach((answer, i) => {
    const code = Math.min(answer, rows[i]) * names.length + Math.max(answer, rows[i]);
    if (answer !== rows[i]) often.set(code, (often.get(code) ?? 0) + 1);
  });
  return [...often]
    .sort(([a, x], [b, y]) => y - x || a - b)
    .slice(0, 5)
    .filter(([, images]) => images > 1)
    .map(([code, images]) => ({ classes: [names[Math.floor(code / names.length)], names[code % names.length]], images }));
}

/** Images that look as if they had the wrong label, the surest first. */
function suspects(shares, answers, rows, names, where) {
  return answers
    .map((answer, i) => ({ i, answer, confidence: shares[i][answer] }))
    .filter(({ i, answer, confidence }) => answer !== rows[i] && confidence >= SURE)
    .sort((a, b) => b.confidence - a.confidence)
    .slice(0, SHOWN)
    .map(({ i, answer, confidence }) => ({
      image: where[i],
      class: names[rows[i]],
      looks_like: names[answer],
      confidence: rounded(confidence, 4),
    }));
}

/** A line on what would help a class, if it needs help. */
function advice(found) {
  const { images, expected } = found;
  const number = images.toLocaleString("en", { maximumSignificantDigits: 10 });
  const count = `${number} ${images === 1 ? "image" : "images"}`;
  if (expected === null) return `${found.class}: ${count}, which says nothing yet: add about ${LEAST}.`;
  if (expected >= ENOUGH) return null;
  const others = found.confused_with.slice(0, 2).map((other) => other.class);
  const confused = others.length ? `, confused with ${others.join(" and ")}` : "";
  const wanted = Math.max(LEAST, Math.min(MOST, rounded(images / 5, 0) * 5));
  return `${found.class}: ${count}, expect ${short(expected)} %${confused}: add about ${wanted}.`;
}

// --- whether a lesson went well

/** How far from guessing (0) to perfect (1) a percentage of right answers is. */
function way(expected, classes) {
  const guessed = 100 / Math.max(classes, 1);
  return (expected - guessed) / Math.max(100 - guessed, 1e-9);
}

function verdict({ expected, older, classes: each, interval: ends }, classes) {
  if (classes === 1 || expected === null) return "fair"; // nothing to tell apart, or nothing to tell by
  if (way(expected, classes) < POOR) return "poor";
  const known = each.map((found) => found.expected).filter((share) => share !== null);
  const lowest = known.length ? Math.min(...known) : expected;
  const fair =
    way(expected, classes) < GOOD ||
    way(lowest, classes) < POOR ||
    way(ends[0], classes) < POOR || // so few images that it may be poor as well
    (older.lost ?? 0) >= MUCH;
  return fair ? "fair" : "good";
}

/** What would help a lesson as a whole, a sentence each. */
function general(report, classes) {
  if (classes === 1) return ["Another class, for it to be told apart from."];
  const said = [];
  if (report.verdict === "poor") said.push("More images, or a backbone that suits them.");
  if (report.expected === null) {
    said.push("More images of each class, as nothing says how well new ones are named.");
  } else if (report.interval[1] - report.interval[0] > FEW) {
    const [low, high] = report.interval.map(short);
    said.push(`More images to judge by, as with so few it may be ${low} % as well as ${high} %.`);
  }
  const worst = [...report.older.classes].sort((a, b) => b.lost - a.lost).slice(0, 3);
  for (const { class: name, lost, to } of worst) {
    if (lost >= MUCH) said.push(`${name}: has lost about ${short(lost)} points, mostly to ${to}: add images of both.`);
  }
  return said;
}
