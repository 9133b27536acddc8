"""Texts, measured: docs/results/text.json, from which docs/text.md has its tables.

ovor grid text-table --out runs/text --cache 2       the runs: heads and sums on features,
ovor grid text-prompts --out runs/text --cache 2     and prompts, which train through the network
python -m docs.text --out runs/text                  their results (those of runs that are not in
                                                     the folder stay); then scikit-learn and unknown
                                                     topics on the features that the runs kept

Reuters-21578 must be in the data folder (docs/data.md). Settings of scikit-learn are chosen on
`reuters-dev`, whose topics are in no table.
"""

import argparse
import json
from dataclasses import replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from docs.alternatives import only
from docs.features import Encoded
from docs.rivals import AllAtOnce, Partial
from ovor import Classifier
from ovor.classifier.evaluate import auroc, fpr_at_tpr
from ovor.data import Dataset, load_dataset
from ovor.data.orders import paper as class_order
from ovor.data.tasks import task_sizes
from ovor.encoders import load_backbone
from ovor.experiments.grid import folder_of
from ovor.experiments.tables import sections
from ovor.training.remembering import Remembering

FILE = Path(__file__).parent / "results/text.json"
SEEDS, TASKS = range(5), 5
TABLES = ("text-table", "text-prompts")
LIMIT = 2 * 10**9  # bytes of features on the disk
SHOWN = {
    "texts": "right %, mean over texts",
    "topics": "mean over topics",
    "A_T": "A_T",
    "F_T": "F_T",
    "gain": "VOR's gain in A_T",
}
OURS = "ours, distance and doubt"
UNKNOWN = {"auroc": "AUROC %", "fpr_at_95_tpr": "FPR at 95 % TPR"}


def runs(out: Path) -> list[dict[str, Any]]:
    """Return the results of the grids' runs, of those that are done."""
    found = []
    for table, seed in product(TABLES, SEEDS):
        for part in sections(table, [], [], [])[1]:
            for row in part.rows:
                folder = folder_of(out, row, seed)
                if folder.finished:
                    found.append({"table": table, "seed": seed, **figures(folder.result())})
    return found


def together(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return both, in the place of a run that was done again the newer one."""

    def which(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["table"], row["seed"], row["method"]

    newer = {which(row): row for row in now}
    return [newer.pop(which(row), row) for row in before] + list(newer.values())


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Return of a run what the tables show."""
    right, tests = np.array(result["class_right"][-1]), np.array(result["class_images"])
    return {
        "method": result["method"],
        "texts": 100 * float(right.sum() / tests.sum()),
        "topics": 100 * float((right / tests).mean()),
        "A_T": result["metrics"]["A_T"],
        "F_T": result["metrics"]["F_T"],
        "seconds": result["seconds"],
    }


class Reader:
    """A new classifier of exact sums, whose network has each text once in all."""

    def __init__(self) -> None:
        whole = load_backbone("text")
        known = Remembering(whole.encoder, whole.sha256, LIMIT)
        self.network = replace(whole, encoder=known)

    def classifier(self) -> Classifier:
        model = Classifier("text")
        model._network = self.network
        return model

    def encoded(self, data: Dataset) -> tuple[Encoded, Encoded]:
        """Return the features of a data set as the classifier reads them: training and tests."""
        model = self.classifier()
        some = np.flatnonzero(data.train.labels < 2)  # so that there is a learner
        names = [data.class_names[data.train.labels[i]] for i in some]
        model.learn([data.train.item(int(i)) for i in some], names)

        def part(items: Any) -> Encoded:
            views = np.stack([model.view(items.item(i)) for i in range(len(items))])
            return Encoded(model.features(views), torch.from_numpy(items.labels))

        return part(data.train), part(data.test)


def rivals() -> dict[str, tuple[Any, dict[str, tuple[Any, ...]]]]:
    """Return how to make each, and the settings to choose from."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid

    def logistic(classes: int, seed: int, C: float) -> AllAtOnce:  # noqa: N803
        return AllAtOnce(lambda: LogisticRegression(C=C, max_iter=1000))

    def partial(classes: int, seed: int, alpha: float, epochs: int) -> Partial:
        return Partial(classes, alpha, epochs, seed)

    return {
        "LogisticRegression, all topics at once": (logistic, {"C": (0.001, 0.01, 0.1, 1.0)}),
        "NearestCentroid": (lambda classes, seed: AllAtOnce(NearestCentroid), {}),
        "SGDClassifier.partial_fit": (partial, {"alpha": (1e-4, 1e-2, 1.0), "epochs": (1, 5)}),
    }


def tasks_of(classes: int, seed: int) -> list[list[int]]:
    """Return the topics of each task, as a run of this seed has them."""
    order, tasks = list(class_order(classes, seed)), []
    for size in task_sizes(classes, TASKS):
        tasks.append(order[:size])
        order = order[size:]
    return tasks


def taught(model: Any, train: Encoded, seed: int) -> Any:
    """Teach all topics: task after task, or at once what can no other way."""
    tasks = tasks_of(int(train.labels.max()) + 1, seed)
    if isinstance(model, AllAtOnce):
        tasks = [[label for task in tasks for label in task]]
    for labels in tasks:
        model.add(only(train, labels), labels)
    return model


def score(model: Any, test: Encoded) -> dict[str, float]:
    right = model.predict(test.features) == test.labels.numpy()
    by_topic = [right[test.labels.numpy() == label].mean() for label in np.unique(test.labels)]
    return {"texts": 100 * float(right.mean()), "topics": 100 * float(np.mean(by_topic))}


def compare(reader: Reader, seeds: list[int]) -> list[dict[str, Any]]:
    """Return what scikit-learn makes of the same features, with settings chosen elsewhere."""
    train, test = reader.encoded(load_dataset("reuters-dev").drawn(0))
    chosen = {}
    for name, (make, settings) in rivals().items():
        every = [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]
        scored = [score(taught(make(10, 0, **one), train, 0), test)["texts"] for one in every]
        chosen[name] = every[int(np.argmax(scored))]
    found = []
    for seed in seeds:
        train, test = reader.encoded(load_dataset("reuters").drawn(seed))
        for name, (make, _) in rivals().items():
            model = taught(make(int(train.labels.max()) + 1, seed, **chosen[name]), train, seed)
            found.append(
                {"name": name, "setting": chosen[name], "seed": seed, **score(model, test)}
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def unknown(reader: Reader, seed: int) -> list[dict[str, Any]]:
    """Learn the topics of all tasks but the last; return how tests of the last are told apart."""
    data = load_dataset("reuters").drawn(seed)
    *lessons, strange = tasks_of(len(data.class_names), seed)
    model = reader.classifier()
    for labels in lessons:
        here = np.flatnonzero(np.isin(data.train.labels, labels))
        names = [data.class_names[data.train.labels[i]] for i in here]
        model.learn([data.train.item(int(i)) for i in here], names)
    scores = []
    for there in (np.isin(data.test.labels, strange), ~np.isin(data.test.labels, strange)):
        views = np.stack([model.view(data.test.item(int(i))) for i in np.flatnonzero(there)])
        features = model.features(views)
        logits, judged = model.learner().logits(features).double(), model.judged(features)
        scores.append(
            {
                OURS: judged.margins,
                "distance alone": -distance_alone(model, features),
                "energy": torch.logsumexp(logits, 1).numpy(),
                "maximum softmax": logits.softmax(1).max(1).values.numpy(),
            }
        )
    found = []
    for name, known in scores[1].items():
        others = scores[0][name]
        row = {"score": name, "seed": seed, "auroc": 100 * auroc(known, others)}
        row["fpr_at_95_tpr"] = 100 * fpr_at_tpr(known, others)
        if name == OURS:
            row |= {
                "false_alarms": 100 * float((known < 0).mean()),
                "rejected": 100 * float((others < 0).mean()),
            }
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def distance_alone(model: Classifier, features: torch.Tensor) -> Any:
    """Return how far texts are, without how little the topics claim them."""
    novelty = model.memory().novelty
    return replace(novelty, doubt=0 * novelty.doubt).distances(features.double()).numpy()


def as_markdown(rows: list[dict[str, Any]], by: str, shown: dict[str, str]) -> str:
    """Return a table of mean ± population standard deviation over the seeds."""
    lines = ["| | " + " | ".join(shown.values()) + " |", "|---" * (len(shown) + 1) + "|"]
    for name in dict.fromkeys(row[by] for row in rows):
        own = [row for row in rows if row[by] == name]
        setting = ", ".join(f"{key} {value}" for key, value in own[0].get("setting", {}).items())
        said = name + (f" ({setting})" if setting else "")
        said += "" if len(own) == len(SEEDS) else f" ({len(own)} of {len(SEEDS)} seeds)"
        cells = [cell([row[key] for row in own if key in row], signed(key)) for key in shown]
        lines.append(f"| {said} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(values: list[float], form: str = ".1f") -> str:
    return f"{fmean(values):{form}} ± {pstdev(values):.1f}" if values else ""


def signed(key: str) -> str:
    return "+.1f" if key == "gain" else ".1f"


def with_gain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs, those with VOR with what it adds to the run of the same seed without."""
    plain = {(row["method"], row["seed"]): row["A_T"] for row in rows}
    found = []
    for row in rows:
        other = (row["method"].removesuffix("+vor"), row["seed"])
        gains = row["method"].endswith("+vor") and other in plain
        found.append(row | ({"gain": row["A_T"] - plain[other]} if gains else {}))
    return found


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of docs/text.md by name."""
    few = {key: SHOWN[key] for key in ("texts", "topics")}
    alarms = {"false_alarms": "known called unknown %", "rejected": "unknown called unknown %"}
    by_table = {
        name: as_markdown(
            with_gain([row for row in found["runs"] if row["table"] == name]), "method", SHOWN
        )
        for name in TABLES
    }
    return by_table | {
        "text-means": means(found),
        "text-alternatives": as_markdown(found["alternatives"], "name", few),
        "text-unknown": as_markdown(found["unknown"], "score", UNKNOWN | alarms),
    }


def means(found: dict[str, Any]) -> str:
    """Return the three means of `analytic` in a sentence, to two digits, as they are much alike."""
    own = [
        row for row in found["runs"] if (row["table"], row["method"]) == ("text-table", "analytic")
    ]
    texts, topics, tasks = (fmean(row[key] for row in own) for key in ("texts", "topics", "A_T"))
    return (
        f"For `analytic` they are {texts:.2f} % over texts, {topics:.2f} % over topics, and an A_T "
        f"of {tasks:.2f} %; the tables round them to one digit. README has the first.\n"
    )


def summary(found: dict[str, Any]) -> str:
    """Return what README says of it in a sentence."""

    def right(rows: list[dict[str, Any]], by: str, name: str) -> str:
        own = [row["texts"] for row in rows if row[by].startswith(name)]
        return f"{fmean(own):.1f} ± {pstdev(own):.1f} %"

    runs = [row for row in found["runs"] if row["table"] == "text-table"]
    ours = right(runs, "method", "analytic")
    theirs = right(found["alternatives"], "name", "LogisticRegression")
    apart = fmean(row["auroc"] for row in found["unknown"] if row["score"] == OURS)
    return (
        f"Reuters news of 23 topics, 30 texts each, in five lessons: {ours} of new texts are named "
        f"right; logistic regression on all of them at once has {theirs}. Topics that were never "
        f"learned are told apart with an AUROC of {apart:.1f} % (five seeds; [what was "
        "measured](docs/text.md)).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the grids' runs")
    parser.add_argument("--runs-only", action="store_true", help="the rest stays as it is")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="of the rest")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    found["runs"] = together(found.get("runs", []), runs(arguments.out))
    if not arguments.runs_only:
        reader = Reader()
        with threadpool_limits(1):
            found["alternatives"] = compare(reader, arguments.seeds)
            found["unknown"] = [row for seed in arguments.seeds for row in unknown(reader, seed)]
        found["versions"] = {name: version(name) for name in ("scikit-learn", "torch")}
        found["backbone"] = reader.network.sha256
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    for name, table in tables(found).items():
        print(f"{name}\n{table}")


if __name__ == "__main__":
    main()
