import random

import numpy as np
import pytest

from ovor.data.orders import ORDERS

# The first ten classes of the released code's runs: (classes, seed) -> ids.
PAPER = {
    (200, 1): [33, 146, 79, 19, 23, 131, 12, 187, 174, 32],
    (200, 2): [51, 94, 55, 35, 170, 177, 20, 85, 50, 36],
    (200, 3): [158, 62, 14, 69, 47, 137, 110, 6, 116, 88],
    (200, 4): [136, 126, 189, 51, 145, 98, 0, 68, 40, 4],
    (100, 1): [53, 37, 65, 51, 4, 20, 38, 9, 10, 81],
    (100, 2): [0, 76, 61, 63, 1, 71, 2, 6, 16, 19],
    (100, 3): [35, 41, 45, 4, 76, 12, 0, 64, 42, 11],
    (100, 4): [73, 86, 82, 23, 1, 42, 57, 40, 76, 69],
}


@pytest.mark.parametrize(("classes", "seed"), PAPER)
def test_paper_order_has_the_published_start(classes: int, seed: int) -> None:
    assert ORDERS["paper"](classes, seed)[:10] == PAPER[classes, seed]


def test_seed_zero_is_natural_in_the_paper_and_shuffled_otherwise() -> None:
    assert ORDERS["paper"](100, 0) == list(range(100))
    assert ORDERS["shuffled"](100, 0) != list(range(100))
    assert ORDERS["shuffled"](100, 3) == ORDERS["paper"](100, 3)


def test_icarl_order_is_one_for_all_seeds() -> None:
    order = ORDERS["icarl"](100, 0)
    assert order[:10] == [68, 56, 78, 8, 23, 84, 90, 65, 74, 76]
    assert ORDERS["icarl"](100, 7) == order


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_a_permutation_of_plain_integers(name: str) -> None:
    order = ORDERS[name](37, 5)
    assert sorted(order) == list(range(37))
    assert {type(c) for c in order} == {int}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_leaves_the_global_random_states_alone(name: str) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    ORDERS[name](50, 4)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
