"""OnePrompt: a single prompt for all inputs and all tasks, and its deep variant (Sec. 4.2).

Nothing is selected, so no query pass is needed; each task continues from the last one's values.
"""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.encoders.prefixed import Blocks, Prefix
from ovor.prompts.base import Lengths, Prompt, check_layers, uniform


@dataclass(frozen=True, config=STRICT)
class OnePromptOptions:
    lengths: Lengths = (5, 5, 20, 20, 20)
    """prefix tokens, for keys and for values each, at layer 0, 1, 2 and so on; 0 leaves one out"""


@dataclass(frozen=True, config=STRICT)
class OnePromptDeepOptions:
    length: Count = 5
    """prefix tokens, for keys and for values each, at every layer of the backbone"""


class OnePrompt(Prompt):
    Options: ClassVar[type] = OnePromptOptions
    needs_query = False

    def __init__(self, options: OnePromptOptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        self.lengths = {layer: n for layer, n in enumerate(options.lengths) if n}
        self.dim = arch.embed_dim
        check_layers(list(self.lengths), arch)
        self.prompts = nn.ParameterList()  # per layer: 2 (keys, values), P, D

    def begin_task(self, generator: torch.Generator) -> None:
        if not len(self.prompts):
            self.prompts.extend(uniform(generator, 2, n, self.dim) for n in self.lengths.values())

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        layers = zip(self.lengths, self.prompts, strict=True)
        return {layer: (p[:1], p[1:]) for layer, p in layers}, torch.zeros(())


class OnePromptDeep(OnePrompt):
    Options: ClassVar[type] = OnePromptDeepOptions

    def __init__(self, options: OnePromptDeepOptions, arch: Blocks) -> None:
        super().__init__(OnePromptOptions(lengths=(options.length,) * arch.depth), arch)
