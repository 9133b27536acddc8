// What GET /model of a server would say of a model: what is known, by how many images, how well.

import { rounded } from "./rounding.js";

/** The lessons that brought new classes, with what is known of each class. */
export function lessonsOf({ tasks, expected }) {
  return tasks
    .map((task, i) => ({
      lesson: i + 1,
      held_out: task.heldOut,
      held_out_accuracy: task.accuracy,
      classes: task.classes.map((name, c) => ({
        name,
        images: task.images[c],
        expected: expected.get(name)?.expected ?? null,
        confused_with: [...(expected.get(name)?.confusedWith ?? [])],
      })),
    }))
    .filter(({ classes }) => classes.length);
}

/** A line a class: how many of its own images were named right when they came, each judged by all others. */
export const memoryOf = (lessons) =>
  lessons.flatMap(({ lesson, classes }) =>
    classes.map(({ name, images, expected }) => {
      const right = expected === null ? null : rounded((expected * images) / 100, 0);
      const points = right === null ? [] : [{ lessons: lesson, images, right, by: "lesson" }];
      return { name, lesson, images, points };
    }),
  );
