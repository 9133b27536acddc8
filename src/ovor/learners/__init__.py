"""Learners by method name."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ovor.backbones.vit import VisionTransformer
from ovor.config import OvorError, explain
from ovor.learners.base import Learner
from ovor.learners.prompt import PromptLearner
from ovor.prompts import PROMPTS

METHODS = tuple(PROMPTS)


def options_type(method: str) -> type:
    """The dataclass of a method's own options."""
    if method not in PROMPTS:
        names = ", ".join(METHODS)
        raise OvorError(f"There is no method {method!r}: choose from {names}, each also with +vor.")
    return PROMPTS[method].Options


def parse_options(method: str, options: dict[str, Any]) -> Any:
    try:
        return TypeAdapter(options_type(method)).validate_python(options)
    except ValidationError as error:
        raise OvorError(f"The options of {method} are wrong: {explain(error)}.") from error


def build_learner(
    method: str,
    options: dict[str, Any],
    backbone: VisionTransformer,
    autocast: Callable[[], AbstractContextManager[None]],
) -> Learner:
    prompt = PROMPTS[method](parse_options(method, options), backbone.arch)
    return PromptLearner(backbone, prompt, autocast)
