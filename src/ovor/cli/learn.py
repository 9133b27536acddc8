"""`ovor learn` and `ovor forget`: what changes a growing classifier."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from pydantic import Field

from ovor.cli.arguments import Device, Model, Rename, optional, parse, renames
from ovor.cli.exits import stopped
from ovor.config import Count, Fraction, Positive
from ovor.errors import OvorError

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier


@dataclass(frozen=True)
class LearnArguments:
    model: Model
    """the model file, such as garden.ovor; made if it does not exist"""
    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """one sub-folder of images per class"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """of a new model: embedded (28-pixel drawings only), a timm name with its tag, or a file
    (default: vit_base_patch16_224.augreg_in21k_ft_in1k). Of an old one: where it is now"""
    method: Annotated[str | None, optional("NAME")] = None
    """of a new model (default: ovor)"""
    rename: Rename = ()
    """learn classes under other names than those of their folders"""
    skip_known: bool = False
    """leave out classes that the model knows already"""
    on_error: Literal["stop", "skip"] = "stop"
    """at an image that cannot be read: stop, or list it and go on without it"""
    dry_run: bool = False
    """show what would be learned, the memory and the time; learn nothing"""
    resume: bool = False
    """continue an unfinished lesson after its last epoch, if there is one"""
    restart: bool = False
    """throw an unfinished lesson away and begin it anew"""
    epochs: Annotated[Count | None, optional("INT")] = None
    """passes over the images (default: 20, with the embedded backbone 4)"""
    batch_size: Annotated[Count | None, optional("INT")] = None
    """images per step, at most"""
    lr: Annotated[Positive | None, optional("FLOAT")] = None
    """learning rate"""
    seed: Annotated[Annotated[int, Field(ge=0)] | None, optional("INT")] = None
    """of initial weights, augmentation and noise (default: 0)"""
    false_alarms: Annotated[Fraction | None, optional("FLOAT")] = None
    """share of images of learned classes that may be called unknown (default: 0.05)"""
    hold_out: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, optional("FLOAT")] = None
    """share of images kept out of training to set that (default: 0.1)"""
    device: Device = "auto"
    """where to compute"""
    workers: Annotated[Annotated[int, Field(ge=0)] | None, optional("INT")] = None
    """processes that load images (default: 0)"""
    num_heads: Annotated[Count | None, optional("INT")] = None
    """attention heads of a new model's backbone, if they are not 64 wide"""
    json: bool = False
    """print what was learned as JSON, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def learn_command(argv: list[str]) -> None:
    """Teach the classes in a folder to a model, as its next task."""
    arguments = parse(
        LearnArguments,
        argv,
        "learn",
        "Teach the classes in FOLDER to MODEL. New classes only; old images are not needed, and "
        "none is kept. Killed at any moment, the model is as before, and --resume goes on.",
    )
    rename = renames(arguments.rename)
    from ovor.classifier.file import alone, check_place, unfinished
    from ovor.experiments.progress import RunProgress

    check_place(arguments.model)
    path, checkpoint = arguments.model, unfinished(arguments.model)
    with nullcontext() if arguments.dry_run else alone(path):
        model = open_model(arguments)
        if not arguments.dry_run:
            settle(checkpoint, model, arguments)
        try:
            with RunProgress(model.run()) as progress:
                lesson = model.lesson(
                    arguments.folder,
                    rename=rename,
                    skip_known=arguments.skip_known,
                    on_error=arguments.on_error,
                    listen=progress,
                )
                notes = [*lesson.notes, *cautions(model, lesson)]
                for note in notes:
                    progress.console.print(note, highlight=False, soft_wrap=True, markup=False)
                if not arguments.dry_run:
                    model.learn_lesson(lesson, checkpoint, progress)
        except KeyboardInterrupt:
            if not checkpoint.exists():
                raise
            sys.exit(
                stopped(
                    f"Stopped; {path} is as before. Continue with the same command and --resume."
                )
            )
        from ovor.cli import model_text

        if arguments.dry_run:
            plan = {**model_text.plan(model, lesson), "notes": notes}
            print(json.dumps(plan) if arguments.json else model_text.plan_in_words(plan))
            return
        model.save(path)
        checkpoint.unlink(missing_ok=True)
    if arguments.json:
        print(json.dumps({**model_text.learned(model, path), "notes": notes}))
    else:
        print(model_text.learned_in_words(model, path))


def open_model(arguments: LearnArguments) -> "Classifier":
    """The model as it is in its file, or a new one."""
    from ovor.classifier.model import Classifier

    settings = {
        name: value
        for name in ("epochs", "batch_size", "lr", "seed", "false_alarms", "hold_out", "workers")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.model.exists():
        model = Classifier.load(
            arguments.model, backbone=arguments.backbone, device=arguments.device
        )
        if arguments.method is not None:
            check_method(model, arguments.method)
        return model.set_params(**settings)
    if arguments.method is not None:
        settings["method"] = arguments.method
    if arguments.backbone is not None:
        settings["backbone"] = arguments.backbone
    model = Classifier(**settings, device=arguments.device, num_heads=arguments.num_heads or 0)
    model.run()
    model.where()
    return model


def settle(checkpoint: Path, model: "Classifier", arguments: LearnArguments) -> None:
    """Is a lesson unfinished, and what is to become of it?"""
    if checkpoint.exists() and (arguments.restart or is_done(checkpoint, model)):
        checkpoint.unlink()
    if checkpoint.exists() and not arguments.resume:
        raise OvorError(
            f"A lesson of {arguments.model} was stopped before its end: continue it (--resume), or "
            "throw it away and begin anew (--restart)."
        )


def check_method(model: "Classifier", method: str) -> None:
    from ovor.presets import ALIASES

    if ALIASES.get(method, method) != model.run().name:
        raise OvorError(
            f"The model was made with {model.run().name}, and a model cannot change its method: "
            "leave out --method, or make a new model."
        )


def is_done(checkpoint: Path, model: "Classifier") -> bool:
    from ovor.classifier.fit import already_learned

    return already_learned(checkpoint, model.tasks_)


def cautions(model: "Classifier", lesson: Any) -> Iterator[str]:
    """What is allowed and probably not meant."""
    first = lesson.images.image(0)
    if model.backbone == "embedded" and min(first.size) > 2 * model.transform().size:
        yield (
            "The embedded backbone knows drawings of 28 pixels; for photographs make the model "
            "with a real one (--backbone vit_base_patch16_224.augreg_in21k_ft_in1k)."
        )


@dataclass(frozen=True)
class ForgetArguments:
    model: Model
    """a model file; it is changed"""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CLASS")]
    """the class to take out"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def forget_command(argv: list[str]) -> None:
    """Take a class out of a model."""
    arguments = parse(
        ForgetArguments,
        argv,
        "forget",
        "Take a class out of the head and the metadata of a model. What its images changed in a "
        "prompt that all classes share stays.",
    )
    from ovor.classifier.file import alone, check_finished
    from ovor.classifier.model import Classifier

    with alone(arguments.model):
        check_finished(arguments.model)
        model = Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
        model.forget(arguments.name)
        model.save(arguments.model)
    if arguments.json:
        print(json.dumps({"forgotten": arguments.name, "classes": model.classes_.tolist()}))
        return
    print(
        f"{arguments.name!r} is out of {arguments.model}: its weights in the head, its name and "
        f"its count are gone, and {len(model.classes_)} classes are left.\n"
        "Not erased: what its images changed in weights that classes share (the prompt), what they "
        "changed in the weights of classes learned with it, the threshold of their task, and any "
        "copy or export made before. To erase those too, learn the model anew without the class."
    )
