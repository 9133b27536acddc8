"""The settings of a server. No torch and no FastAPI here: the command line imports this module."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, so that none can fill the memory, the disk or the day."""

    image_bytes: int = 20_000_000
    pixels: int = 50_000_000
    images_per_prediction: int = 64
    images_per_lesson: int = 2000
    request_bytes: int = 500_000_000
    seconds: float = 300
    """how long a request may take to arrive"""
    inbox: int = 500
    """images that wait in the inbox; 0 keeps none"""
    inbox_bytes: int = 200_000_000
    """of all of them"""
    decoding_seconds: int = 10
    """of a processor, for one image"""


@dataclass(frozen=True)
class Settings:
    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    """of those who may do everything"""
    ask_token: str | None = None
    """of those who may ask and not teach"""
    hosts: tuple[str, ...] = ()
    """names that the server is reached by, besides its address"""
    backbone: str | None = None
    device: str = "auto"
    evaluation: Path | None = None
    """folder of labelled images that the model is evaluated on after every lesson"""
    inbox: Path | None = None
    """folder that the inbox is kept in; None: in memory alone"""
    queue: int = 256
    """how many images may wait for their prediction"""
    limits: Limits = field(default_factory=Limits)
    debug: bool = False
