"""What else one could train on the same features: docs/results/alternatives.json.

python -m docs.alternatives    needs scikit-learn (in [dev]) and river (in nothing: pip install it)

The 100 benchmark drawings in the class orders of seeds 0 to 4, ten at a time; settings of every
alternative are chosen on the development classes. Features are those of `analytic`.
"""

import json
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean, pstdev
from tempfile import TemporaryDirectory
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from docs.features import DATA, Encoded, encode, learner_of
from docs.rivals import AllAtOnce, Exact, Partial, Stream
from ovor import Classifier
from ovor.data.orders import paper as class_order
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.presets import settings

FILE = Path(__file__).parent / "results/alternatives.json"
SEEDS, EACH = range(5), 10
KNOWN = 90  # classes before ten more are added


@dataclass(frozen=True)
class Alternative:
    """One way to learn the classes, with settings to choose from on the development classes."""

    name: str
    make: Callable[..., Any]  # (classes, seed, **setting)
    settings: dict[str, tuple[Any, ...]]
    keeps: bool  # features of all images, to be fitted anew?
    note: str = ""


def alternatives() -> list[Alternative]:
    """Return what is compared."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def logistic(classes: int, seed: int, C: float) -> AllAtOnce:  # noqa: N803
        return AllAtOnce(
            lambda: make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000))
        )

    def discriminant(classes: int, seed: int, shrinkage: Any) -> AllAtOnce:
        return AllAtOnce(lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage))

    def neighbours(classes: int, seed: int, n_neighbors: int, metric: str) -> AllAtOnce:
        return AllAtOnce(
            lambda: KNeighborsClassifier(n_neighbors, metric=metric, weights="distance")
        )

    def partial(classes: int, seed: int, alpha: float, epochs: int) -> Partial:
        return Partial(classes, alpha, epochs, seed)

    def stream(classes: int, seed: int, rate: float, batch: int) -> Stream:
        return Stream(rate, batch, seed)

    return [
        Alternative("analytic", lambda classes, seed: Exact(), {}, False),
        Alternative(
            "LogisticRegression, all classes at once",
            logistic,
            {"C": (1e-4, 1e-3, 1e-2, 1e-1)},
            True,
        ),
        Alternative(
            "LinearDiscriminantAnalysis",
            discriminant,
            {"shrinkage": ("auto", 0.001, 0.003, 0.01, 0.03, 0.1)},
            True,
        ),
        Alternative(
            "KNeighborsClassifier",
            neighbours,
            {"n_neighbors": (1, 3, 5, 10, 20, 50), "metric": ("euclidean", "cosine")},
            True,
        ),
        Alternative(
            "NearestCentroid",
            lambda classes, seed: AllAtOnce(NearestCentroid),
            {},
            True,
        ),
        Alternative(
            "SGDClassifier.partial_fit",
            partial,
            {"alpha": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2), "epochs": (1, 5)},
            False,
            "all classes must be named before the first lesson",
        ),
        Alternative(
            "river OneVsRest(LogisticRegression)",
            stream,
            {"rate": (1e-3, 1e-2, 1e-1, 1.0), "batch": (80,)},
            False,
        ),
    ]


def taught(model: Any, train: Encoded, order: list[int], each: int) -> Any:
    """Teach the classes in this order; what needs all at once is fitted once."""
    if isinstance(model, AllAtOnce):
        each = len(order)
    for start in range(0, len(order), each):
        labels = order[start : start + each]
        model.add(only(train, labels), labels)
    return model


def only(images: Encoded, labels: Iterable[int]) -> Encoded:
    """Return the images of some classes, with their labels as they are."""
    here = torch.isin(images.labels, torch.tensor(list(labels)))
    return Encoded(images.features[here], images.labels[here])


def right(model: Any, test: Encoded) -> float:
    return 100 * float((model.predict(test.features) == test.labels.numpy()).mean())


def choose(one: Alternative, train: Encoded, test: Encoded) -> dict[str, Any]:
    """Return the settings that are best on the development classes, in 5 lessons of 9."""
    best: tuple[float, dict[str, Any]] = (-1.0, {})
    for values in product(*one.settings.values()):
        setting = dict(zip(one.settings, values, strict=True))
        if not setting:
            return setting
        model = taught(one.make(45, 0, **setting), train, list(range(45)), 9)
        found = right(model, test)
        print(one.name, setting, f"{found:.2f}", flush=True)
        best = max(best, (found, setting), key=lambda pair: pair[0])
    return best[1]


def measure(one: Alternative, setting: dict[str, Any], train: Encoded, test: Encoded) -> Any:
    """Return accuracy by seed, seconds of a core to add ten classes to 90, and bytes."""
    order, accuracies = class_order(100, 0), []
    model = one.make(100, 0, **setting)
    before, more = only(train, order[:KNOWN]), only(train, order[KNOWN:])
    if isinstance(model, AllAtOnce):
        model.see(before)  # a fit of 90 would be thrown away
    else:
        taught(model, before, order[:KNOWN], EACH)
    begun = time.process_time()
    model.add(more, order[KNOWN:])
    seconds = time.process_time() - begun
    accuracies.append(right(model, test))
    for seed in SEEDS[1:] if not isinstance(model, AllAtOnce) else ():
        again = taught(one.make(100, seed, **setting), train, class_order(100, seed), EACH)
        accuracies.append(right(again, test))
    kept = file_size() if one.name == "analytic" else len(pickle.dumps(model.model))
    if one.keeps and one.name != "KNeighborsClassifier":  # which holds them itself
        kept += train.features.numpy().nbytes
    found = {
        "name": one.name,
        "setting": setting,
        "accuracy": accuracies,
        "seconds": seconds,
        "bytes": kept,
        "old_images": one.keeps,
        "unknown": one.name == "analytic",
        "note": one.note,
    }
    print(found, flush=True)
    return found


def file_size() -> int:
    """Return the size of a model file that knows the 100 classes."""
    drawings = DATA["quickdraw"]()
    names = [drawings.class_names[label] for label in drawings.train.labels]
    pictures = [drawings.train.image(i) for i in range(len(names))]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "all.ovor"
        Classifier("embedded").learn(pictures, names).save(path)
        return path.stat().st_size


def whole_runs() -> dict[str, float]:
    """Return the seconds of a core that ten lessons take with `ovor run`, tests included."""
    found = {}
    for method in ("analytic", "oneprompt+vor"):
        with TemporaryDirectory() as folder:
            run = replace(settings("quickdraw", method), threads=1)
            begun = time.process_time()
            execute(run, Folder(Path(folder) / "run"))
            found[method] = time.process_time() - begun
    return found


def as_markdown(found: dict[str, Any]) -> str:
    """Return the table."""
    heads = ["", "accuracy %", "seconds to add 10 classes", "MB kept", "old images", "unknown"]
    lines = [heads, ["---"] * len(heads)]
    for row in found["rows"]:
        spread = f" ± {pstdev(row['accuracy']):.1f}" if len(row["accuracy"]) > 1 else ""
        setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
        lines.append(
            [
                row["name"] + (f" ({setting})" if setting else ""),
                f"{fmean(row['accuracy']):.1f}{spread}",
                f"{row['seconds']:.1f}",
                f"{row['bytes'] / 1e6:.1f}",
                "needed" if row["old_images"] else "not needed",
                "yes" if row["unknown"] else "no",
            ]
        )
    return as_table(lines)


def as_seconds(found: dict[str, Any]) -> str:
    """Return the table of what takes how long."""
    lines = [["", "seconds of a core"], ["---"] * 2]
    lines.append(["to encode 800 drawings", f"{800 * found['encode_seconds']:.1f}"])
    lines.append(["to encode 8,000 drawings", f"{8000 * found['encode_seconds']:.1f}"])
    for method, seconds in found["run_seconds"].items():
        lines.append([f"`ovor run --method {method}`", f"{seconds:.1f}"])
    return as_table(lines)


def as_table(lines: list[list[str]]) -> str:
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("| --- ", "|---")


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    learner, parts = learner_of({}), {}
    for data, load in DATA.items():
        begun, drawings = time.process_time(), load()
        parts[data] = encode(learner, drawings.train), encode(learner, drawings.test)
        took = (time.process_time() - begun) / sum(len(part.labels) for part in parts[data])
    kept = json.loads(FILE.read_text())["rows"] if names else []
    rows = {row["name"]: row for row in kept}
    with threadpool_limits(1):
        for one in alternatives():
            if not names or any(one.name.startswith(name) for name in names):
                rows[one.name] = measure(
                    one, choose(one, *parts["quickdraw-dev"]), *parts["quickdraw"]
                )
    found = {
        "versions": {name: version(name) for name in ("scikit-learn", "river", "torch")},
        "encode_seconds": took,
        "run_seconds": whole_runs(),
        "rows": [rows[one.name] for one in alternatives()],
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(as_markdown(found))


if __name__ == "__main__":
    main(sys.argv[1:])
