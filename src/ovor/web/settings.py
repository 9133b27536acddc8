"""What a server is started with. No torch and no FastAPI here: the command line reads it."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a request may ask for, so that none can fill the memory, the disk or the day."""

    image_bytes: int = 20_000_000
    pixels: int = 50_000_000
    images_per_prediction: int = 64
    images_per_task: int = 2000
    request_bytes: int = 500_000_000
    seconds: float = 300
    """to send a request in"""


@dataclass(frozen=True)
class Settings:
    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """names that the server is reached by, besides its address"""
    backbone: str | None = None
    device: str = "auto"
    exam: Path | None = None
    queue: int = 256
    """images that may wait to be predicted"""
    limits: Limits = field(default_factory=Limits)
    debug: bool = False
