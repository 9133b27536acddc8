"""Depths of the network for texts that are read, and ridge: docs/results/text-depths.json.

python -m docs.text_depths --folder FOLDER      chatterbot_corpus/data/english of PyPI's
                                                chatterbot-corpus

On development texts alone, those of docs/doubt.py: `reuters-dev`'s topics, groups of Reuters'
topics that are in no table, and short questions. Ten draws of each, all classes learned at once.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import torch
from torch import Tensor

from docs.doubt import NAMES, TESTS, asked_questions, grouped_texts, small_topics
from docs.features import accuracy
from docs.own_ideas import logits, solved
from docs.text import Reader

FILE = Path(__file__).parent / "results/text-depths.json"
SEEDS = range(10)
# Depths, how much shorter each is than the next, and the share of the ridge. `analytic` reads three
# depths from the middle to the last: the third, the fourth and the sixth.
READ = {
    "four, as of images": ((2, 3, 4, 5), 0.7, 1.0),
    "four, 0.5 as long": ((2, 3, 4, 5), 0.5, 1.0),
    "four, all as long": ((2, 3, 4, 5), 1.0, 1.0),
    "three": ((2, 3, 5), 0.7, 1.0),
    "the last three": ((3, 4, 5), 0.7, 1.0),
    "the last": ((5,), 1.0, 1.0),
    "all six": ((0, 1, 2, 3, 4, 5), 0.7, 1.0),
    "four, 0.3 of the ridge": ((2, 3, 4, 5), 0.7, 0.3),
    "three, 0.3 of the ridge": ((2, 3, 5), 0.7, 0.3),
    "three, 0.1 of the ridge": ((2, 3, 5), 0.7, 0.1),
    "three, 3 times the ridge": ((2, 3, 5), 0.7, 3.0),
}
Found = dict[str, dict[str, list[float]]]  # accuracy by set, by what is read and by draw


def at_every_depth(reader: Reader, classes: dict[str, list[str]]) -> tuple[Tensor, Tensor]:
    """Return the features of texts (n, depths, D), and their labels."""
    model, texts = reader.classifier(), [text for own in classes.values() for text in own]
    encoder, found = reader.network.encoder, []
    for start in range(0, len(texts), 64):
        views = [model.view(text) for text in texts[start : start + 64]]
        inputs = encoder.tensor(torch.from_numpy(np.stack(views)), model.transform())
        found.append(encoder.depths(inputs, range(len(encoder.widths))))
    labels = np.repeat(np.arange(len(classes)), [len(own) for own in classes.values()])
    return torch.cat(found).unflatten(1, (len(encoder.widths), -1)), torch.from_numpy(labels)


def right(features: Tensor, labels: Tensor, each: int, ridge: float, seed: int) -> float:
    """Return the percentage of other texts named right, with so many of a class learned."""
    draw, learned, asked = np.random.default_rng(seed), list[int](), list[int]()
    classes = int(labels.max()) + 1
    for label in range(classes):
        own = draw.permutation(np.flatnonzero(labels.numpy() == label)).tolist()
        count = min(each, len(own) // 2)
        learned, asked = learned + own[:count], asked + own[count : count + TESTS]
    mixture = solved(features[learned].double(), labels[learned], classes, ridge)
    return accuracy(logits(mixture, features[asked].double()), labels[asked])


def measured(folder: Path) -> Found:
    reader, found = Reader(), Found()
    sets = {
        "texts": (small_topics(), 10),
        "groups": (grouped_texts(), 30),
        "questions": (asked_questions(folder), 30),
    }
    for name, (classes, each) in sets.items():
        whole, labels = at_every_depth(reader, classes)
        found[name] = {}
        for said, (depths, fading, ridge) in READ.items():
            lengths = [fading**before for before in reversed(range(len(depths)))]
            parts = [whole[:, d] * length for d, length in zip(depths, lengths, strict=True)]
            features = torch.cat(parts, 1)
            found[name][said] = [
                round(right(features, labels, each, ridge, seed), 3) for seed in SEEDS
            ]
            print(f"{name}, {said}: {fmean(found[name][said]):.2f}", flush=True)
    return found


def as_markdown(found: Found) -> str:
    """Return the means, and beside the first the differences to what is read of images."""
    lines = [f"| | {' | '.join(NAMES[name] for name in found)} | mean |", "|---" * 5 + "|"]
    for said in READ:
        cells = []
        for rows in found.values():
            apart = [a - b for a, b in zip(rows[said], rows[next(iter(READ))], strict=True)]
            gain = f" ({fmean(apart):+.1f} ± {pstdev(apart):.1f})" if any(apart) else ""
            cells.append(f"{fmean(rows[said]):.1f}{gain}")
        whole = fmean(fmean(rows[said]) for rows in found.values())
        lines.append(f"| {said} | {' | '.join(cells)} | {whole:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of the questions")
    torch.set_num_threads(1)
    found = measured(parser.parse_args().folder)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(as_markdown(found))


if __name__ == "__main__":
    main()
