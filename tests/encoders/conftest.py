import pytest
import torch

from ovor.encoders import Architecture, VisionTransformer

ARCHITECTURE = Architecture(
    embed_dim=128, depth=2, num_heads=2, mlp_dim=96, patch_size=4, in_chans=3, grid=(3, 3)
)


@pytest.fixture
def vit() -> VisionTransformer:
    """A small network with every parameter drawn, also those that start as zeros or ones."""
    network = VisionTransformer(ARCHITECTURE).requires_grad_(False).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return network


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
