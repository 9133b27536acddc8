"""What is too large for the memory is said to be, and not called a mistake of ours."""

import pytest
import torch

from ovor.errors import in_words


@pytest.mark.parametrize("numbers", [2**55, 2**62])  # more than is given, more than is counted
def test_what_does_not_fit_is_no_mistake_in_ovor(numbers: int) -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.zeros(numbers, dtype=torch.double)
    assert "more memory than there is" in in_words(refused.value)


def test_other_errors_of_torch_are() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.ones(2) @ torch.ones(3)
    assert "mistake in ovor" in in_words(refused.value)
