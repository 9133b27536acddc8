"""The figures that the paper prints, which tables and costs are compared with."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """Return every printed figure, by table."""
    text = (files("ovor") / "assets" / "paper.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
