// From sums to a head, and to what judges its answers.

import { Discriminant, Mixture } from "./discriminant.js";
import { DOUBT, Novelty } from "./novelty.js";
import { directions, Scatter } from "./scatter.js";
import { chooseRidge, Spectrum } from "./spectrum.js";

/**
 * The head of these sums, with what judging by leave-one-out takes; `images` is how many at most. What is
 * unknown goes on to be told as `before`, whose histogram is of that.
 */
export function solve(kernel, moments, images, before, told = () => {}) {
  const scatter = new Scatter(kernel, moments);
  const space = directions(scatter, images);
  told(0.15);
  const spectrum = new Spectrum(scatter, space, (share) => told(0.15 + 0.4 * share));
  // Cross-validation goes by the average class; where there are smaller ones, more is needed.
  const unequal = scatter.inequality;
  const ridge = chooseRidge(scatter, spectrum) * unequal;
  told(0.65);
  const mixture = new Mixture(new Discriminant(scatter, space, spectrum, ridge));
  told(0.8);
  // For distances the ridge does not grow with the smallest class: one image would change them all.
  const plain = unequal < 1 + 1e-9 ? mixture.discriminant : new Discriminant(scatter, space, spectrum, ridge / unequal);
  told(0.95);
  const novelty = Novelty.of(plain, before && !(before.doubt > 0) ? 0 : DOUBT);
  told(1);
  return { mixture, plain, novelty, head: mixture.head() };
}

/** Logits and distances of learned images (on the grid) as if each had not been learned. */
export function withoutEach({ mixture, plain, novelty }, features, labels) {
  const left = mixture.discriminant.without(features, labels);
  return {
    logits: left.map(({ outputs, lengths, counts }) => mixture.logits(outputs, lengths, counts)),
    distances: novelty.without(plain, features, labels, plain === mixture.discriminant ? left : undefined),
  };
}
