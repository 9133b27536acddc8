"""`ovor serve`: a model as an HTTP API with a page."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from pydantic import Field, NonNegativeInt

from ovor.cli.arguments import Debug, Device, Model, optional, parse
from ovor.config import Count, Positive
from ovor.errors import OvorError
from ovor.web.settings import Limits, Settings

DEFAULT = Limits()


@dataclass(frozen=True)
class ServeArguments:
    """Predictions and lessons over HTTP, and a page for both. Lessons change MODEL. Ctrl-C lets a
    lesson end and saves it; twice cancels it.
    """

    model: Model
    """a model file; lessons change it, and the first one makes it if it does not exist"""
    host: str = "127.0.0.1"
    """address to serve at; any but this machine's own needs a token"""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """0 takes a free one"""
    token: Annotated[str | None, optional("TOKEN")] = None
    """what clients must send; better in the environment (OVOR_TOKEN), where others cannot see it"""
    ask_token: Annotated[str | None, optional("TOKEN")] = None
    """another one, for clients that may ask and not teach (or OVOR_ASK_TOKEN)"""
    allow_host: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")
    ] = field(default=())
    """a name that the server is reached by, such as a proxy's"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """of a new model, as for `ovor learn`; of an old one: where its backbone is now, if moved"""
    device: Device = "auto"
    """where to compute"""
    exam: Annotated[Path | None, optional("FOLDER")] = None
    """one sub-folder per class, or a table of texts: after each lesson it is asked about them, to
    measure what is forgotten"""
    inbox: Annotated[Path | None, optional("FOLDER")] = None
    """where to keep images or texts that the model was not sure about, so that they are there after
    a restart; without, they are in memory alone, until the server stops"""
    max_inbox: NonNegativeInt = DEFAULT.inbox
    """images or texts that wait in the inbox, the oldest go first; 0 keeps none"""
    queue: Count = 256
    """images or texts that may wait to be predicted; beyond, clients are told to come again"""
    max_image_bytes: Count = DEFAULT.image_bytes
    """of an image file"""
    max_pixels: Count = DEFAULT.pixels
    """of an image"""
    max_images: Count = DEFAULT.images_per_prediction
    """of a prediction"""
    max_lesson_images: Annotated[Count, tyro.conf.arg(aliases=["--max-task-images"])] = (
        DEFAULT.images_per_lesson
    )
    """of a lesson"""
    max_request_bytes: Count = DEFAULT.request_bytes
    """of a request"""
    max_seconds: Positive = DEFAULT.seconds
    """that a request may take to arrive"""
    debug: Debug = False


def serve_command(argv: list[str]) -> None:
    """Serve a model until the process is told to end."""
    arguments = parse(ServeArguments, argv)
    token = token_of(arguments.token, "OVOR_TOKEN")
    ask_token = token_of(arguments.ask_token, "OVOR_ASK_TOKEN")
    if token is not None and token == ask_token:
        raise OvorError("The two tokens are the same: who may only ask needs another one.")
    try:
        from ovor.web.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "ovor":
            raise
        raise OvorError(
            f"Serving needs {error.name}: install it by pip install 'ovor[serve]'."
        ) from error
    serve(
        Settings(
            model=arguments.model,
            host=arguments.host,
            port=arguments.port,
            token=token,
            ask_token=ask_token,
            hosts=arguments.allow_host,
            backbone=arguments.backbone,
            device=arguments.device,
            evaluation=arguments.exam,
            inbox=arguments.inbox,
            queue=arguments.queue,
            limits=Limits(
                image_bytes=arguments.max_image_bytes,
                pixels=arguments.max_pixels,
                images_per_prediction=arguments.max_images,
                images_per_lesson=arguments.max_lesson_images,
                request_bytes=arguments.max_request_bytes,
                seconds=arguments.max_seconds,
                inbox=arguments.max_inbox,
            ),
            debug=arguments.debug,
        )
    )


def token_of(given: str | None, variable: str) -> str | None:
    """Return a token as clients send it, from the arguments or the environment, if there is one."""
    token = given if given is not None else os.environ.get(variable)
    token = token.strip() if token is not None else None  # no client could send the blanks
    if token == "":
        raise OvorError("The token is empty: give one, or none at all.")
    return token
