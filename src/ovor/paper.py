"""The figures of the paper, as printed; tables and costs are compared with them."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper() -> dict[str, Any]:
    text = (files("ovor") / "assets" / "paper.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
