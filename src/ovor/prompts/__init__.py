"""Prompt methods by the name that a run gives them; a new one is a file and a line here."""

from ovor.prompts.apt import Apt
from ovor.prompts.base import Prompt
from ovor.prompts.coda import CodaP
from ovor.prompts.dualprompt import DualPrompt
from ovor.prompts.l2p import L2P
from ovor.prompts.oneprompt import OnePrompt, OnePromptDeep

PROMPTS: dict[str, type[Prompt]] = {
    "oneprompt": OnePrompt,
    "oneprompt-deep": OnePromptDeep,
    "l2p": L2P,
    "dualprompt": DualPrompt,
    "coda-p": CodaP,
    "apt": Apt,
}
