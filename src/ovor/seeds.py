"""Random numbers as a pure function of a key such as (seed, task, epoch).

Nothing in ovor draws from a global generator, so a resumed run equals an unbroken one.
"""

import numpy as np
import torch

# What a key is for; two uses with the same seed, task and epoch must not share their draws.
WEIGHTS, NOISE, HEAD_ORDER = range(3)


def generator(*key: int) -> torch.Generator:
    """Return a generator whose draws are a function of the key."""
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))
