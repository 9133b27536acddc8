import pytest
import torch


@pytest.fixture
def query():
    return torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
