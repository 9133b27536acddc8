// Which images are alike, by the distances that are usual in the model that looks at them.

const ALIKE = 0.75; // of the mean squared distance of all, where the model does not know what is usual

/** The number of the group of each image: those of the largest group have 1. */
export function groupsOf(rows, usual) {
  if (rows.length < 2) return rows.map(() => 1);
  const squares = rows.map((one) => Float64Array.from(rows, (other) => apart(one, other)));
  const sum = squares.reduce((all, line) => all + line.reduce((a, b) => a + b, 0), 0);
  return numbered(linked(squares, usual ?? (ALIKE * sum) / (rows.length * (rows.length - 1))));
}

function apart(one, other) {
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += (one[i] - other[i]) ** 2;
  return sum;
}

/** The two nearest become one while they are near enough; groups are as far apart as theirs on average. */
function linked(squares, limit) {
  const group = squares.map((_, i) => i);
  const sizes = squares.map(() => 1);
  squares.forEach((line, i) => {
    line[i] = Infinity;
  });
  for (let step = 1; step < squares.length; step += 1) {
    const [one, other, least] = nearest(squares);
    if (!(least <= limit)) break;
    const share = sizes[one] / (sizes[one] + sizes[other]);
    for (let i = 0; i < squares.length; i += 1) {
      const mean = i === one ? Infinity : share * squares[one][i] + (1 - share) * squares[other][i];
      squares[one][i] = squares[i][one] = mean;
    }
    for (let i = 0; i < squares.length; i += 1) squares[other][i] = squares[i][other] = Infinity;
    sizes[one] += sizes[other];
    const gone = group[other];
    group.forEach((own, i) => {
      if (own === gone) group[i] = group[one];
    });
  }
  return group;
}

function nearest(squares) {
  let [one, other, least] = [0, 0, Infinity];
  squares.forEach((line, i) => {
    for (let j = 0; j < line.length; j += 1) if (line[j] < least) [one, other, least] = [i, j, line[j]];
  });
  return [one, other, least];
}

/** Groups as numbers from 1 on, the largest first, of equal ones that whose image comes first. */
function numbered(group) {
  const sizes = new Map();
  for (const own of group) sizes.set(own, (sizes.get(own) ?? 0) + 1);
  const order = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a));
  return group.map((own) => order.indexOf(own) + 1);
}
