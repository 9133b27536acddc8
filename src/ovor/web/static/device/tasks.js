// What a model remembers of its lessons: which classes came when, and of how many images.

export const namesOf = (tasks) => tasks.flatMap(({ classes }) => classes);

/** The tasks with more images of known classes (a Map); new ones are another task. */
export function withMore(tasks, added) {
  const known = new Set(namesOf(tasks));
  const classes = [...added.keys()].filter((name) => !known.has(name));
  const grown = changed(tasks, added);
  if (!classes.length) return grown;
  return [...grown, { classes, images: classes.map((name) => added.get(name)), heldOut: 0, threshold: 0, accuracy: null }];
}

/** The tasks with one image less for each time that a class is named; the last one stays for now. */
export function withFewer(tasks, names) {
  const less = new Map();
  for (const name of names) less.set(name, (less.get(name) ?? 0) - 1);
  return changed(tasks, less);
}

const changed = (tasks, by) =>
  tasks.map((task) => ({
    ...task,
    images: task.images.map((count, i) => Math.max(1, count + (by.get(task.classes[i]) ?? 0))),
  }));

export const withoutClass = (tasks, name) =>
  tasks.map((task) => ({
    ...task,
    classes: task.classes.filter((own) => own !== name),
    images: task.images.filter((_, i) => task.classes[i] !== name),
  }));

export const renamedClass = (tasks, old, name) =>
  tasks.map((task) => ({ ...task, classes: task.classes.map((own) => (own === old ? name : own)) }));

/** How many images there were, at most, classes that are gone included. */
export const imagesOf = (tasks, moments) =>
  tasks.reduce((total, { images }) => total + images.reduce((all, count) => all + count, 0), moments.gone[1]);
