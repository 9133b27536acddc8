"""`ovor share`: a model for others, on the Hugging Face hub or in a folder."""

import json
from dataclasses import dataclass
from typing import Annotated

import tyro

import ovor
from ovor.cli.arguments import Debug, Json, ModelFile, MovedBackbone, parse

Where = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(
        metavar="WHERE",
        help="a repository of the Hugging Face hub (owner/name), or a folder (./name)",
    ),
]


@dataclass(frozen=True)
class ShareArguments:
    """The model file and a page that describes it, in a repository or a folder."""

    model: ModelFile
    where: Where
    private: bool = False
    """make a new repository private"""
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def share_command(argv: list[str]) -> None:
    """Share a model with its page, and say where."""
    arguments = parse(ShareArguments, argv)
    model = ovor.Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
    place = model.push_to_hub(arguments.where, private=arguments.private)
    if arguments.json:
        print(json.dumps({"shared": place}))
    else:
        print(f"Shared in {place}: others get it by `ovor fetch {arguments.where} MODEL`.")
