"""One run from its configuration to its result folder."""

import platform
import tempfile
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ovor.config import Run, Transform
from ovor.data import Dataset, load_dataset
from ovor.data.cache import cached
from ovor.data.orders import ORDERS
from ovor.data.scenarios import arrange
from ovor.data.shift import shifted
from ovor.data.tasks import split, task_sizes
from ovor.distributed.ranks import ALONE, Ranks
from ovor.encoders import Backbone, load_backbone
from ovor.encoders.preprocessing import UNCHANGED, Preprocessing, spaced
from ovor.errors import OvorError
from ovor.events import Event, Listener, Note, Recorded, RunEnds, TaskEnds, silent
from ovor.experiments.diagnostics import write_diagnostics
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.tensorboard import Board
from ovor.learners import at_once, check_scenario, check_vor, reads_features
from ovor.learners.base import Learner
from ovor.metrics import Matrix, accuracy_matrix, all_metrics
from ovor.presets import PAPER
from ovor.tensor_file import load_tensors, save_tensors
from ovor.training import context as training
from ovor.training.checkpointing import Checkpoints, Position, grow
from ovor.training.context import Context
from ovor.training.features import Features
from ovor.training.loop import train
from ovor.training.remembering import Remembering
from ovor.training.vor_cache import CachedCheckpoints, CachedFeatures

SCHEMA = 1


def execute(
    run: Run,
    folder: Folder,
    listen: Listener = silent,
    vor_cache: Path | None = None,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
    diagnostics: bool = False,
) -> dict[str, Any]:
    """Do the run, or what is left of it, and return what result.json holds.

    `vor_cache` is a folder where runs that differ in VOR's settings alone share the rest. With
    several processes this is for the first of them; the others `assist`. `diagnostics` measures
    what a report shows besides the result, while the features of the last evaluation are at hand.
    """
    if folder.run_file.exists() and read_run(folder.run_file).essence != run.essence:
        raise OvorError(
            f"{folder.path} was started with other settings: choose another folder, or remove it."
        )
    if folder.finished:
        ranks.broadcast(False)
        return folder.result()

    board = Board(folder, run) if run.tensorboard else silent

    def note(event: Event) -> None:
        board(event)
        if isinstance(event, Recorded):
            folder.log(event)
        if isinstance(event, TaskEnds) and run.keep == "tasks":
            save_weights(folder.weights_after(event.task), context, learner)
        listen(event)

    context, learner = prepare(run, folder.checkpoint, note, ranks, device)
    features, checkpoints = Features(context), Checkpoints(context)
    if vor_cache and run.vor and ranks.size == 1:
        features = CachedFeatures(context, vor_cache)
        checkpoints = CachedCheckpoints(context, vor_cache)
    with folder.locked():
        if folder.finished:  # by another run, meanwhile
            ranks.broadcast(False)
            return folder.result()
        folder.start(run)
        ranks.broadcast(True)
        position = train(context, learner, features, checkpoints)
        save_weights(folder.weights, context, learner)
        result = summary(context, learner, position)
        folder.finish(result)
        folder.checkpoint.unlink()
    folder.log(RunEnds(result["metrics"]))
    if diagnostics:
        with suppress(OvorError):  # the result stands; whoever makes a report is told
            write_diagnostics(folder, context, learner, features)
    return result


def diagnose(folder: Folder) -> None:
    """Measure a finished run anew, on the weights that it left."""
    context, learner = prepare(read_run(folder.run_file), folder.checkpoint)
    grow(learner, [len(task.classes) for task in context.tasks], context.run.seed)
    learner.load_learned_state(load_tensors(folder.weights)[0])
    write_diagnostics(folder, context, learner, Features(context))


def assist(run: Run, folder: Folder, ranks: Ranks, device: torch.device) -> None:
    """Do the part of every process but the first: compute, and leave nothing in the folder.

    Features that memory cannot hold go there as well, if it is to be seen from here.
    """
    context, learner = prepare(run, folder.checkpoint, ranks=ranks, device=device)
    if ranks.broadcast(False):  # is there anything to do?
        if not folder.path.is_dir():
            context = replace(context, checkpoint=Path(tempfile.gettempdir(), "none"))
        train(context, learner, Features(context), Checkpoints(context))


def take_part(
    ranks: Ranks,
    device: torch.device,
    run: Run,
    path: Path,
    listen: Listener,
    asked: Run | None = None,
) -> dict[str, Any] | None:
    """Do one rank's part in a run by several processes; rank 0 returns the result.

    `asked` is what this rank's own command asks for, if that must equal what rank 0 chose.
    """
    if asked and asked.essence != run.essence:
        raise OvorError(
            f"Process {ranks.rank + 1} was started with other settings than the first: give every "
            "machine the same command."
        )
    if ranks.rank == 0:
        return execute(run, Folder(path), listen, ranks=ranks, device=device)
    assist(run, Folder(path), ranks, device)
    return None


def save_weights(path: Path, context: Context, learner: Learner) -> None:
    """Write all that was learned, and the names of the classes in the order of the logits."""
    meta = {"schema": SCHEMA, "classes": context.ordered_names}
    save_tensors(path, learner.learned_state(), meta)


def prepare(
    run: Run,
    checkpoint: Path,
    listen: Listener = silent,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
) -> tuple[Context, Learner]:
    """Load all that the run names; whatever is wrong with it is said here."""
    check_scenario(run)
    if run.threads:
        torch.set_num_threads(run.threads)
    dataset = cached(load_dataset(run.data).drawn(run.seed), int(run.cache * 1e9))
    order = tuple(ORDERS[run.order](len(dataset.class_names), run.seed))
    sizes = task_sizes(len(order), run.tasks, run.task_sizes)
    dataset = shifted(dataset, order, sizes, run.shift, run.seed)
    own = (len(order),) if at_once(run.method) else sizes
    tasks = arrange(split(dataset, order, own), run, sizes)
    for number, task in enumerate(tasks):
        if not len(task.test):
            names = ", ".join(dataset.class_names[c] for c in task.classes)
            raise OvorError(
                f"Task {number + 1} ({names}) has no test image: add some, or make fewer tasks."
            )
    backbone = load_backbone(run.backbone, run.num_heads or None)
    check_reads(run, dataset, backbone)
    if backbone.encoder.reads.steady and reads_features(run.method, run.options):
        known = Remembering(backbone.encoder, backbone.sha256, int(run.cache * 1e9))
        backbone = replace(backbone, encoder=known)
    if said := unlike_the_paper(run.transform, backbone.preprocessing):
        listen(Note(said))
    check_vor(run)
    return training.prepare(
        run,
        dataset,
        tasks,
        backbone,
        checkpoint,
        order=order,
        listen=listen,
        ranks=ranks,
        device=device,
    )


def check_reads(run: Run, dataset: Dataset, backbone: Backbone) -> None:
    """Refuse data of another kind than the backbone reads."""
    given = dataset.train.many
    wanted = backbone.encoder.reads.many
    if given != wanted:
        such = "text" if given == "texts" else PAPER.backbone
        raise OvorError(
            f"{run.data} has {given}, and the backbone {run.backbone} reads {wanted}: choose one "
            f"that reads {given}, such as --backbone {such}."
        )


def unlike_the_paper(transform: Transform, own: Preprocessing | None) -> str:
    """Return a sentence if the pixels are the paper's and the backbone is known to want others."""
    used = transform.mean, transform.std
    if used != (0, 1) or own is None or own.guessed or (own.mean, own.std) == UNCHANGED:
        return ""
    mean, std = spaced(own.mean), spaced(own.std)
    return (
        f"Pixels go in as in the paper, with mean 0 and std 1, but the backbone was trained with "
        f"mean {mean} and std {std} (says {own.said_by}): --transform.mean {mean} --transform.std "
        f"{std} would follow that."
    )


def summary(context: Context, learner: Learner, position: Position) -> dict[str, Any]:
    """Return what result.json says of a finished run."""
    run, tasks, backbone = context.run, context.tasks, context.backbone
    accuracy = accuracy_matrix(position.accuracy)
    return {
        "schema": SCHEMA,
        "method": run.name,
        "data": run.data,
        "arrival": list(run.arrival),
        "seed": run.seed,
        "tasks": [len(task.classes) for task in tasks],
        "class_order": list(context.order),
        **by_class(context, position),
        "accuracy": nullable(accuracy),
        "accuracy_task_id_given": nullable(accuracy_matrix(position.accuracy_task_id_given)),
        "metrics": all_metrics(accuracy, [len(task.test) for task in tasks]),
        "seconds": round(position.seconds, 3),
        "core_seconds": round(position.core_seconds, 3),
        "learnable_parameters": learner.learned_parameters(),
        "device": context.fabric.device.type,
        "processes": context.ranks.size,
        "precision": run.precision,
        "backbone": {name: getattr(backbone, name) for name in ("name", "source", "sha256")},
        "versions": {
            "ovor": version("ovor"),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "threads": torch.get_num_threads(),
        },
    }


def by_class(context: Context, position: Position) -> dict[str, Any]:
    """Return, in the class order: names, test images, and how many are right after each task.

    A run that an older version began did not count the last.
    """
    labels = np.concatenate([task.test.labels for task in context.tasks])
    names = context.ordered_names
    found = {
        "class_names": names,
        "class_images": np.bincount(labels, minlength=len(names)).tolist(),
    }
    if len(position.class_right) < len(context.tasks):
        return found
    return {**found, "class_right": [list(row) for row in position.class_right]}


def nullable(matrix: Matrix) -> list[list[float | None]]:
    """Return a matrix for JSON, which has no NaN: above the diagonal stands null."""
    return [[None if np.isnan(x) else round(float(x), 6) for x in row] for row in matrix]
