"""`ovor predict`: the class of images, row by row as they are computed."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, tee
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ovor.classifier.onnx import OnnxClassifier
from ovor.classifier.prediction import Predictor, predict_readable, row
from ovor.cli.arguments import Debug, Device, Json, Model, MovedBackbone, TextColumn, parse
from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.given_items import look_ahead
from ovor.cli.imports import without_collecting
from ovor.cli.prediction_rows import Row, as_json_lines, as_lines
from ovor.config import Count
from ovor.data.modality import Found
from ovor.errors import OvorError
from ovor.events import ImagesPredicted


@dataclass(frozen=True)
class PredictArguments:
    """The class of each image or text with its confidence, or `unknown` if it is like none of them,
    as soon as it is computed. Piped, the columns are separated by tabs.
    """

    model: Model
    """a model file, or an .onnx file that `ovor export` made"""
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="ITEM")]
    """image files; folders, with all that is below them; - for paths on standard input. For a model
    of texts: .txt files, folders of them, tables, a text of several words in quotes, or - for a
    text a line"""
    text_column: TextColumn = None
    top: Count = 1
    """how many classes to name, the likeliest first"""
    on_error: Literal["row", "stop", "skip"] = "row"
    """at one that cannot be read: say why in its row, go on, and fail at the end (row); print
    nothing at all (stop); or leave it out with a line on stderr (skip)"""
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    jsonl: bool = False
    """print a JSON value a line, as they are computed"""
    debug: Debug = False

    @property
    def at_once(self) -> bool:
        """Whether nothing is printed before everything is computed."""
        return self.json or self.on_error == "stop"


def predict_command(argv: list[str]) -> None:
    """Predict images, and print a row for each."""
    arguments = parse(PredictArguments, argv)
    if arguments.json and arguments.jsonl:
        sys.exit(wrong_usage("ovor: --json prints one value and --jsonl many: choose one."))
    model = open_predictor(arguments.model, arguments.backbone, arguments.device)
    reads = model.reads
    ahead, found = look_ahead(arguments.images, reads, (arguments.text_column, None))
    count = bad = long = 0
    try:
        for said in written(arguments, model, ahead, found):
            count += 1
            bad += "error" in said
            long += "shortened" in said
    except BrokenPipeError:  # `| head`: who reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except KeyboardInterrupt:
        sys.exit(stopped(f"Stopped after {reads.count(count)}."))
    if long:
        print(
            f"Longer than what is read, and named by the beginning: {reads.count(long)}.",
            file=sys.stderr,
        )
    if bad and bad == count:
        raise OvorError(f"None of these {reads.many} could be read: check the paths.")
    if bad and arguments.on_error == "row":
        raise OvorError(f"{bad:,} of {reads.count(count)} could not be read: their rows say why.")


def written(
    arguments: PredictArguments, model: Predictor, ahead: list[Found], found: Iterator[Found]
) -> Iterator[Row]:
    """Print what was asked for in the way that was asked for, and yield the rows of it."""
    every: Iterable[Found] = chain(ahead, found)
    if arguments.at_once:
        complete = gathered(model, list(every), arguments)
        if arguments.json:
            print(json.dumps(complete))
            yield from complete
            return
        rows: Iterable[Row] = complete
    else:
        rows = rows_of(model, every, arguments.top)
    if arguments.jsonl:
        yield from as_json_lines(rows)
    else:
        skip = arguments.on_error == "skip"
        yield from as_lines(rows, [name for name, _ in ahead], skip, model.reads.one)


def open_predictor(path: Path, backbone: str | None, device: str) -> Predictor:
    """Return the classifier of a model file, or of an export by its suffix."""
    if path.suffix == ".onnx":
        return OnnxClassifier.load(path)
    with without_collecting():
        from ovor.classifier.model import Classifier  # brings torch, which help can do without
    return Classifier.load(path, backbone=backbone, device=device)


def rows_of(model: Predictor, found: Iterable[Found], top: int) -> Iterator[Row]:
    """Yield a row for each image, as the batches come; one that cannot be read has an error."""
    named, placed = tee(found)
    answers = predict_readable(model, (place for _, place in placed))
    for answer, (name, _) in zip(answers, named, strict=True):
        yield row(name, answer, top, model.reads)


def gathered(model: Predictor, found: list[Found], arguments: PredictArguments) -> list[Row]:
    """Return all rows, with a bar meanwhile; at an error stop if that was asked for."""
    from ovor.cli.counting import Counting  # which brings the bars of runs

    complete = []
    with Counting("predicting") as listen:
        for said in rows_of(model, found, arguments.top):
            if "error" in said and arguments.on_error == "stop":
                raise OvorError(
                    f"{said['error']} Or go on without such {model.reads.many} (--on-error skip)."
                )
            listen(ImagesPredicted(1, len(found)))
            complete.append(said)
    return complete
