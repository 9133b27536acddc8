"""Learners by method name."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from ovor.config import Run
from ovor.encoders.base import Encoder
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError, explain
from ovor.learners.anacp import AnaCp
from ovor.learners.analytic import Analytic
from ovor.learners.aper import AperAdapter, AperDeep, AperFinetune, AperShallow, AperSsf
from ovor.learners.aprompt import APrompt
from ovor.learners.base import Autocast, Learner
from ovor.learners.ease import Ease
from ovor.learners.fecam import Fecam
from ovor.learners.finetune import L2, Finetune, Joint
from ovor.learners.klda import Klda
from ovor.learners.linear import LinearProbe
from ovor.learners.loranpac import LoRanPac
from ovor.learners.prompt import PromptLearner
from ovor.learners.randumb import RanDumb
from ovor.learners.ranpac import RanPac
from ovor.learners.rsiat import Rsiat
from ovor.learners.shapes import Shapes
from ovor.learners.simplecil import SimpleCil
from ovor.learners.slca import Slca
from ovor.learners.ssiat import Ssiat
from ovor.prompts import PROMPTS

LEARNERS: dict[str, type[Learner]] = {
    "analytic": Analytic,
    "shapes": Shapes,
    "linear": LinearProbe,
    "simplecil": SimpleCil,
    "adam-finetune": AperFinetune,
    "adam-vpt-shallow": AperShallow,
    "adam-vpt-deep": AperDeep,
    "adam-adapter": AperAdapter,
    "adam-ssf": AperSsf,
    "ranpac": RanPac,
    "loranpac": LoRanPac,
    "klda": Klda,
    "randumb": RanDumb,
    "fecam": Fecam,
    "anacp": AnaCp,
    "slca": Slca,
    "ssiat": Ssiat,
    "rsiat": Rsiat,
    "ease": Ease,
    "l2": L2,
    "a-prompt": APrompt,
    "finetune": Finetune,
    "joint": Joint,
}
METHODS = (*PROMPTS, *LEARNERS)


def takes_vor(method: str) -> bool:
    """Tell whether a method has a linear head per task, which VOR tightens."""
    return method in PROMPTS or LEARNERS[method].takes_vor


def at_once(method: str) -> bool:
    """Tell whether a method learns all classes as one task, whatever the number of tasks."""
    return method in LEARNERS and LEARNERS[method].at_once


def returning(method: str) -> bool:
    """Tell whether a method can take more images of classes of earlier tasks."""
    return method in LEARNERS and LEARNERS[method].returning


def looks_again(method: str, options: dict[str, Any]) -> bool:
    """Tell whether a method goes through images again that it has trained on."""
    return method in LEARNERS and LEARNERS[method].looks_again(parse_options(method, options))


def check_scenario(run: Run) -> None:
    """Refuse a scenario that the run's method cannot learn in, and name the methods that can."""
    if run.scenario == "repetition" and not returning(run.method):
        able = [name for name in METHODS if returning(name)]
        raise OvorError(
            f"{run.name} learns a task's own classes alone, and in the scenario repetition images "
            f"of older ones return: choose {listed(able)}."
        )
    if run.scenario == "stream" and looks_again(run.method, run.options):
        able = [name for name in METHODS if not looks_again(name, {})]
        raise OvorError(
            f"{run.name} looks at images again that it has trained on, and a stream shows each "
            f"once: choose {listed([*able, 'ranpac with --method.tuning none'])}."
        )


def listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def options_type(method: str) -> type:
    """Return the dataclass of a method's own options."""
    if method in PROMPTS:
        return PROMPTS[method].Options
    if method in LEARNERS:
        return LEARNERS[method].Options
    raise OvorError(
        f"There is no method {method!r}: choose from {', '.join(METHODS)}; those with a linear "
        "head also with +vor."
    )


def parse_options(method: str, options: dict[str, Any]) -> Any:
    """Return a method's options as its dataclass, or say which is wrong."""
    try:
        return TypeAdapter(options_type(method)).validate_python(options)
    except ValidationError as error:
        raise OvorError(f"The options of {method} are wrong: {explain(error)}.") from error


def build_learner(
    method: str, options: dict[str, Any], backbone: Encoder, autocast: Autocast
) -> Learner:
    """Return a learner of the method that has seen no task."""
    parsed = parse_options(method, options)
    if not isinstance(backbone, VisionTransformer):
        check_any_encoder(method, parsed)
    elif method in PROMPTS:
        return PromptLearner(PROMPTS[method](parsed, backbone.arch), backbone, autocast)
    return LEARNERS[method](parsed, backbone, autocast)


def check_any_encoder(method: str, options: Any) -> None:
    """Refuse a backbone that is no ViT for what needs one."""
    if method in PROMPTS or not LEARNERS[method].any_encoder:
        raise OvorError(
            f"{method} needs a vision transformer, and this backbone is none: choose the method "
            'analytic, or another backbone, such as "embedded" or '
            '"vit_base_patch16_224.augreg_in21k_ft_in1k".'
        )
    if getattr(options, "tuning", "none") != "none":
        raise OvorError(
            f"Only a vision transformer can be tuned ({options.tuning}), and this backbone is "
            "none: leave tuning at none, or choose another backbone."
        )
