"""`ovor forget`: a class out of a model."""

import json
from dataclasses import dataclass
from typing import Annotated

import tyro

import ovor
from ovor.classifier.lock import check_finished, locked
from ovor.cli.arguments import Debug, Json, Model, MovedBackbone, parse


@dataclass(frozen=True)
class ForgetArguments:
    """Take a class out of the head and the metadata of a model. What its images changed in a prompt
    that all classes share stays.
    """

    model: Model
    """a model file; it is changed"""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CLASS")]
    """the class to take out"""
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def forget_command(argv: list[str]) -> None:
    """Take a class out of a model file, and say what stays of it."""
    arguments = parse(ForgetArguments, argv)
    with locked(arguments.model):
        check_finished(arguments.model)
        model = ovor.Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
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
