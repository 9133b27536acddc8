"""Learners by method name."""

import dataclasses
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ovor.config import Run
from ovor.encoders.base import Encoder
from ovor.encoders.prefixed import Prefixed
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError, explain
from ovor.learners.anacp import AnaCp
from ovor.learners.analytic import Analytic
from ovor.learners.aper import AperAdapter, AperDeep, AperFinetune, AperShallow, AperSsf
from ovor.learners.aprompt import APrompt
from ovor.learners.base import Autocast, Learner, Needs
from ovor.learners.ease import Ease
from ovor.learners.fecam import Fecam
from ovor.learners.finetune import L2, Finetune, Joint
from ovor.learners.first_task import MayTune
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
    return learner_type(method).takes_vor


def check_vor(run: Run) -> None:
    """Refuse VOR where there is nothing for it to tighten."""
    if run.vor and not takes_vor(run.method):
        raise OvorError(f"{run.method} has no linear head for VOR to tighten: leave out the +vor.")


def at_once(method: str) -> bool:
    """Tell whether a method learns all classes as one task, whatever the number of tasks."""
    return method in LEARNERS and LEARNERS[method].at_once


def returning(method: str) -> bool:
    """Tell whether a method can take more images of classes of earlier tasks."""
    return method in LEARNERS and LEARNERS[method].returning


def looks_again(method: str, options: dict[str, Any]) -> bool:
    """Tell whether a method goes through images again that it has trained on."""
    return method in LEARNERS and LEARNERS[method].looks_again(parse_options(method, options))


def may_tune(method: str) -> bool:
    """Tell whether a method lets the first task tune the network, or not, as its options say."""
    return method in LEARNERS and issubclass(LEARNERS[method], MayTune)


def reads_features(method: str, options: dict[str, Any]) -> bool:
    """Tell whether a method needs no more of a network than its features."""
    return learner_type(method).needs(parse_options(method, options)) == "features"


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
        choices = f"choose {listed([*able, 'ranpac with --method.tuning none'])}."
        if may_tune(run.method):
            choices = "leave the network as it is (--method.tuning none), or choose another method."
        raise OvorError(
            f"{run.name} looks at images again that it has trained on, and a stream shows each "
            f"once: {choices}"
        )


def listed(names: list[str], word: str = "or") -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last


def options_type(method: str) -> type:
    """Return the dataclass of a method's own options."""
    return PROMPTS[method].Options if method in PROMPTS else learner_type(method).Options


def parse_options(method: str, options: dict[str, Any]) -> Any:
    """Return a method's options as its dataclass, or say which is wrong."""
    try:
        return TypeAdapter(options_type(method)).validate_python(options)
    except ValidationError as error:
        raise OvorError(f"The options of {method} are wrong: {explain(error)}.") from error


def in_full(run: Run) -> Run:
    """Return the run with all options of its method, those that it leaves as they are too.

    Through JSON and back, as run.json has them: lists, not tuples.
    """
    every = dataclasses.asdict(parse_options(run.method, run.options))
    return dataclasses.replace(run, options=json.loads(json.dumps(every)))


def build_learner(
    method: str, options: dict[str, Any], backbone: Encoder, autocast: Autocast
) -> Learner:
    """Return a learner of the method that has seen no task."""
    parsed = parse_options(method, options)
    check_network(method, parsed, backbone)
    if method in PROMPTS:
        assert isinstance(backbone, Prefixed)
        return PromptLearner(PROMPTS[method](parsed, backbone.arch), backbone, autocast)
    return LEARNERS[method](parsed, backbone, autocast)


def check_network(method: str, options: Any, backbone: Encoder) -> None:
    """Refuse a backbone that the method cannot learn with."""
    learner = learner_type(method)
    needed = learner.needs(options)
    if can_be(backbone, needed):
        return
    wanted = "vision transformer" if needed == "vit" else "transformer"
    advice = f"leave the network as it is ({learner.untuned}), " if learner.untuned else ""
    able = [name for name in METHODS if can_be(backbone, learner_type(name).needs(own(name)))]
    able = [name for name in able if name != method]
    choices = f"{advice}choose the method {listed(able)}"
    if backbone.reads.many == "images":  # no network that reads texts is one
        choices += ', or another backbone, such as "embedded" or '
        choices += '"vit_base_patch16_224.augreg_in21k_ft_in1k"'
    raise OvorError(f"{method} needs a {wanted}, and this backbone is none: {choices}.")


def learner_type(method: str) -> type[Learner]:
    """Return the class of a method's learners, or say which methods there are."""
    if method in PROMPTS:
        return PromptLearner
    if method in LEARNERS:
        return LEARNERS[method]
    raise OvorError(
        f"There is no method {method!r}: choose from {', '.join(METHODS)}; those with a linear "
        "head also with +vor."
    )


def own(method: str) -> Any:
    """Return a method's options as they are by default."""
    return options_type(method)()


def can_be(backbone: Encoder, needed: Needs) -> bool:
    """Tell whether a backbone has what a method needs."""
    kind = {"features": Encoder, "blocks": Prefixed, "vit": VisionTransformer}[needed]
    return isinstance(backbone, kind)
