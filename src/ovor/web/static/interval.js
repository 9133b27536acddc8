// How far a share of few images can be trusted.

const Z = 1.96; // 95 of 100 such intervals hold the true share

/** Wilson's interval, in percent, for so many right of so many images. */
export function interval(right, images) {
  const p = right / images;
  const scale = 1 + Z ** 2 / images;
  const middle = (p + Z ** 2 / (2 * images)) / scale;
  const half = (Z * Math.sqrt((p * (1 - p)) / images + Z ** 2 / (4 * images ** 2))) / scale;
  return [100 * Math.max(0, middle - half), 100 * Math.min(1, middle + half)];
}

export const shareOf = (percent) => `${percent.toFixed(percent % 1 ? 1 : 0)} %`;

/** Such as "75 % (30 to 95 %)". */
export function inWords(right, images) {
  const [low, high] = interval(right, images).map(Math.round);
  return `${Math.round((100 * right) / images)} % (${low} to ${high} %)`;
}
