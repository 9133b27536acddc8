import hashlib
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors.torch import save_file
from torch import Tensor

from ovor.encoders import Architecture, Backbone, VisionTransformer, load_backbone, weights
from ovor.errors import OvorError

NAME = "vit_base_patch16_224.augreg_in21k_ft_in1k"
Tensors = dict[str, Tensor]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the tests have no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def tensors(vit: VisionTransformer) -> Tensors:
    return vit.state_dict()


def check_is(backbone: Backbone, vit: VisionTransformer, file: Path) -> None:
    """The same network, frozen, with the hash of the file it came from."""
    assert backbone.vit.arch == vit.arch
    state = backbone.vit.state_dict()
    assert state.keys() == vit.state_dict().keys()
    for name, tensor in vit.state_dict().items():
        assert state[name].dtype == torch.float32
        assert torch.equal(state[name], tensor)
    assert not backbone.vit.training
    assert not any(parameter.requires_grad for parameter in backbone.vit.parameters())
    assert backbone.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def store(tensors: Tensors, folder: Path, name: str = "weights.safetensors") -> str:
    save_file(tensors, folder / name)
    return str(folder / name)


def cache(tensors: Tensors, folder: Path, name: str) -> Path:
    """A Hugging Face cache that holds the model, as a download leaves it."""
    repo = folder / f"models--timm--{name}"
    snapshot = repo / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("0" * 40)
    save_file(tensors, snapshot / "model.safetensors")
    return snapshot / "model.safetensors"


# Sources


@pytest.mark.parametrize("padding", range(0, 64, 8))
def test_where_a_file_has_the_weights_does_not_show(
    tensors: Tensors, vit: VisionTransformer, tmp_path: Path, padding: int
) -> None:
    """Bit for bit, for one image too: MKL multiplies in another order at odd addresses."""
    content = Path(store(tensors, tmp_path)).read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = content[8:start] + b" " * ((padding - start) % 64)
    path = tmp_path / "moved.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[start:])
    found = load_backbone(str(path)).vit
    image = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found(image), vit(image))


def test_embedded(
    tensors: Tensors, vit: VisionTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(tensors, tmp_path, "backbone.safetensors")
    monkeypatch.setattr(weights, "ASSETS", tmp_path)
    backbone = load_backbone("embedded")
    check_is(backbone, vit, tmp_path / "backbone.safetensors")
    assert (backbone.name, backbone.source) == ("embedded", "embedded in ovor 0.1.0")


def test_embedded_backbone_is_the_one_that_is_documented() -> None:
    vit = load_backbone("embedded").vit
    documented = Architecture(192, 6, 3, vit.arch.mlp_dim, patch_size=7, in_chans=3, grid=(4, 4))
    assert vit.arch == documented
    assert torch.isfinite(vit(torch.rand(2, 3, 28, 28))).all()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt", ".bin"])
def test_files(suffix: str, tensors: Tensors, vit: VisionTransformer, tmp_path: Path) -> None:
    file = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(tensors, file)
    backbone = load_backbone(str(file))
    check_is(backbone, vit, file)
    assert (backbone.name, backbone.source) == (str(file), f"file: weights{suffix}")


def prefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


WRAPPINGS: dict[str, Callable[[Tensors], object]] = {
    "model": lambda x: {"model": x, "epoch": 3},
    "state_dict": lambda x: {"state_dict": prefixed("module.", x), "best": 0.5},
    "parameters": lambda x: {name: torch.nn.Parameter(tensor) for name, tensor in x.items()},
    "nested": lambda x: {"state_dict": {"model": x}},
    "dino": lambda x: {
        "student": prefixed("module.backbone.", {n: t + 1 for n, t in x.items()}),
        "teacher": prefixed("backbone.", x) | {"head.mlp.0.weight": torch.zeros(2, 2)},
        "epoch": 99,
    },
    "dino, parallel": lambda x: {
        "teacher": prefixed("module.backbone.", x) | {"module.head.last": torch.zeros(2)}
    },
    "old format": lambda x: {"model": x},
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_wrapped_state_dicts(
    wrapping: str, tensors: Tensors, vit: VisionTransformer, tmp_path: Path
) -> None:
    file = tmp_path / "weights.pth"
    content = WRAPPINGS[wrapping](tensors)
    torch.save(content, file, _use_new_zipfile_serialization=wrapping != "old format")
    check_is(load_backbone(str(file)), vit, file)


def test_cached_timm_name_needs_no_network(
    tensors: Tensors, vit: VisionTransformer, tmp_path: Path
) -> None:
    file = cache(tensors, tmp_path, NAME)
    backbone = load_backbone(NAME, cache_dir=tmp_path)
    check_is(backbone, vit, file)
    assert (backbone.name, backbone.source) == (NAME, f"hub: timm/{NAME}")


def test_timm_name_is_fetched_once(
    tensors: Tensors, vit: VisionTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    find = huggingface_hub.hf_hub_download

    def download(
        repo: str, file: str, cache_dir: Path, local_files_only: bool = False
    ) -> str | Path:
        if local_files_only:
            return find(repo, file, cache_dir=cache_dir, local_files_only=True)
        fetched.append((repo, file))
        if file == "config.json":
            raise OSError("it has none")
        return cache(tensors, cache_dir, repo.removeprefix("timm/"))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    repo = "timm/deit3_small_patch16_224.fb_in1k"
    for _ in range(2):
        backbone = load_backbone("deit3_small_patch16_224.fb_in1k", cache_dir=tmp_path)
        assert torch.equal(backbone.vit.pos_embed, vit.pos_embed)
    assert fetched == [(repo, "model.safetensors"), (repo, "config.json")]


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_short_names_are_those_of_dinov2_with_registers(
    size: str, tensors: Tensors, vit: VisionTransformer, tmp_path: Path
) -> None:
    full = f"vit_{size}_patch14_reg4_dinov2.lvd142m"
    file = cache(tensors, tmp_path, full)
    backbone = load_backbone(size, cache_dir=tmp_path)
    check_is(backbone, vit, file)
    assert (backbone.name, backbone.source) == (size, f"hub: timm/{full}")
    assert backbone.preprocessing is not None
    assert backbone.preprocessing.said_by == "DINOv2, known by its name"


def test_short_name_offline_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    full = "timm/vit_small_patch14_reg4_dinov2.lvd142m"
    check_refusal("small", full, "model.safetensors", "give its path", "HF_HUB_CACHE")


# What is read off the tensors


@pytest.mark.parametrize(
    "change",
    [
        {"layer_scale": True},
        {"qkv_bias": False},
        {"registers": 4},
        {"embed_class": False},
        {"registers": 4, "embed_class": False, "layer_scale": True, "patch_size": 14},
        {"in_chans": 1, "mlp_dim": 77, "depth": 11, "grid": (1, 1)},
    ],
    ids=str,
)
def test_architecture_is_read_off_the_tensors(
    change: dict[str, object], vit: VisionTransformer, tmp_path: Path
) -> None:
    arch = replace(vit.arch, **change)
    file = store(VisionTransformer(arch).state_dict(), tmp_path)
    assert load_backbone(file).vit.arch == arch


def test_dinov2_names_its_registers_otherwise(vit: VisionTransformer, tmp_path: Path) -> None:
    arch = replace(vit.arch, registers=4)
    state = VisionTransformer(arch).state_dict()
    state["register_tokens"] = state.pop("reg_token")
    state["mask_token"] = torch.zeros(1, 128)
    assert load_backbone(store(state, tmp_path)).vit.arch == arch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_become_float32(dtype: torch.dtype, tensors: Tensors, tmp_path: Path) -> None:
    file = store({name: tensor.to(dtype) for name, tensor in tensors.items()}, tmp_path)
    for name, tensor in load_backbone(file).vit.state_dict().items():
        assert torch.equal(tensor, tensors[name].to(dtype).float())
        assert tensor.dtype == torch.float32


def test_classification_heads_are_left_out(
    tensors: Tensors, vit: VisionTransformer, tmp_path: Path
) -> None:
    for name in ("head.weight", "head.bias", "head_dist.weight", "pre_logits.fc.weight"):
        tensors[name] = torch.zeros(7, 128)
    file = store(tensors, tmp_path)
    check_is(load_backbone(file), vit, Path(file))


@pytest.mark.parametrize(
    ("embed_dim", "num_heads"),
    [(64, 1), (192, 3), (384, 6), (768, 12), (1024, 16), (1280, 16), (1408, 16), (1536, 24)],
)
def test_heads_are_those_of_the_published_vits(embed_dim: int, num_heads: int) -> None:
    arch = Architecture(embed_dim, 1, num_heads, mlp_dim=8, patch_size=2, in_chans=3, grid=(2, 2))
    assert weights.read_architecture(weights.expected_shapes(arch), None, "ViT") == arch


def test_heads_can_be_given(
    tensors: Tensors, vit: VisionTransformer, images: Tensor, tmp_path: Path
) -> None:
    four = load_backbone(store(tensors, tmp_path), num_heads=4).vit
    assert four.arch == replace(vit.arch, num_heads=4)
    assert not torch.allclose(four(images), vit(images))


# What is refused


def check_refusal(name: str | Path, *words: str, num_heads: int | None = None) -> None:
    """One sentence that has the words, and no path of a folder unless it was given."""
    with pytest.raises(OvorError) as refusal:
        load_backbone(str(name), num_heads)
    message = str(refusal.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    assert message.endswith(".")


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.pth").mkdir()
    check_refusal(tmp_path / "folder.pth", "no file", "folder.pth")
    check_refusal(tmp_path / "gone.npz", "no file", "gone.npz", "check the path")


@pytest.mark.parametrize("file", ["weights.ckpt", "weights.h5", "weights"])
def test_unknown_suffix(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(b"anything")
    check_refusal(tmp_path / file, file, ".safetensors, .pth, .pt, .bin, .npz", "convert")


def test_missing_embedded_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "ASSETS", tmp_path)
    check_refusal("embedded", "embedded backbone is missing", "install ovor again")


def test_unknown_names_and_bare_timm_names() -> None:
    check_refusal("resnet", '"resnet"', '"embedded"', '"small", "base", "large"', NAME)
    for name in ("vit_base_patch16_224", "vit_small_patch14_dinov2"):
        check_refusal(name, f'"{name}"', "augreg2_in21k_ft_in1k", "not the paper's", f'"{NAME}"')


def test_offline_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    check_refusal(NAME, f"timm/{NAME}", "model.safetensors", "give its path", "HF_HUB_CACHE")


def refuse_download(error: Exception) -> Callable[..., str]:
    def download(*_: object, local_files_only: bool = False, **__: object) -> str:
        raise LocalEntryNotFoundError("not cached") if local_files_only else error

    return download


def test_network_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = refuse_download(RuntimeError("reset by peer"))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", broken)
    check_refusal(NAME, f"timm/{NAME}", "RuntimeError", "model.safetensors", "HF_HUB_CACHE")


def test_no_such_timm_model(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its constructor wants a response of whichever HTTP library the hub's version uses.
    unknown = refuse_download(RepositoryNotFoundError.__new__(RepositoryNotFoundError))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unknown)
    check_refusal("vit_base_patch16_224.typo", "no timm/vit_base_patch16_224.typo", "check")


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "a web page": lambda _: b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "text": lambda _: b"hello world, this is not a checkpoint",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["safetensors", "pth", "old pth", "npz"])
def test_damaged_file(kind: str, damage: str, tensors: Tensors, tmp_path: Path) -> None:
    file = tmp_path / f"weights.{kind.removeprefix('old ')}"
    if kind == "safetensors":
        save_file(tensors, file)
    else:  # .npz and torch's archive are both zip files
        torch.save(tensors, file, _use_new_zipfile_serialization=kind != "old pth")
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    check_refusal(file, file.name, "truncated or not a", "again")


def test_pickle_that_would_run_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("code was run",)

    torch.save({"model": Payload()}, tmp_path / "bad.pth")
    check_refusal(tmp_path / "bad.pth", "bad.pth", "Python objects", "state_dict()")
    assert "code was run" not in capsys.readouterr().out


def test_pickle_of_a_whole_module(vit: VisionTransformer, tmp_path: Path) -> None:
    torch.save(vit, tmp_path / "module.pth")
    check_refusal(tmp_path / "module.pth", "module.pth", "Python objects", "state_dict()")


@pytest.mark.parametrize("content", [torch.zeros(2), [1, 2], {"epoch": 3, "lr": 0.1}], ids=str)
def test_torch_file_without_a_state_dict(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "strange.pth")
    check_refusal(tmp_path / "strange.pth", "strange.pth", "state_dict()")


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("blocks.1.attn", ["lacks 4 tensor(s)", "blocks.1.attn.qkv.weight", "and 1 more"]),
        ("blocks", ["lacks 11 tensor(s)", "blocks.0.norm1.weight"]),
        ("cls_token", ["no cls_token", NAME]),
    ],
)
def test_missing_tensors(gone: str, words: list[str], tensors: Tensors, tmp_path: Path) -> None:
    left = {name: tensor for name, tensor in tensors.items() if not name.startswith(gone)}
    check_refusal(store(left, tmp_path), "weights.safetensors", *words)


def test_a_block_left_out(tensors: Tensors, tmp_path: Path) -> None:
    gap = {name.replace("blocks.1.", "blocks.2."): x for name, x in tensors.items()}
    check_refusal(store(gap, tmp_path), "lacks 12 tensor(s)", "blocks.1.norm1.weight")


@pytest.mark.parametrize(
    "foreign",
    [
        "fc_norm.weight",
        "norm_pre.weight",
        "dist_token",
        "blocks.0.attn.q_norm.weight",
        "blocks.1.mlp.w12.weight",
        "rel_pos_bias.weight",
    ],
)
def test_parts_that_a_plain_vit_does_not_have(
    foreign: str, tensors: Tensors, tmp_path: Path
) -> None:
    tensors[foreign] = torch.zeros(1, 1, 128)
    # A second token would shift the positions too; the message should name the cause.
    tensors["pos_embed"] = torch.zeros(1, 11, 128)
    check_refusal(store(tensors, tmp_path), "weights.safetensors", "1 tensor(s)", foreign, NAME)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cls_token", (1, 1, 64)),
        ("patch_embed.proj.weight", (128, 3, 4, 2)),
        ("blocks.1.mlp.fc1.weight", (80, 128)),
        ("blocks.0.mlp.fc2.weight", (128, 48)),  # half of fc1: a gated MLP, packed
        ("patch_embed.proj.weight", (128, 48)),
        ("pos_embed", (10, 128)),
        ("norm.bias", ()),
    ],
)
def test_wrong_shapes(name: str, shape: tuple[int, ...], tensors: Tensors, tmp_path: Path) -> None:
    tensors[name] = torch.zeros(shape)
    check_refusal(store(tensors, tmp_path), "weights.safetensors", f"{name} {list(shape)}", NAME)


@pytest.mark.parametrize("positions", [0, 3, 11, 12])
def test_positions_that_are_no_square(positions: int, tensors: Tensors, tmp_path: Path) -> None:
    tensors["pos_embed"] = torch.zeros(1, positions, 128)
    check_refusal(store(tensors, tmp_path), "weights.safetensors", f"{positions} positions")


@pytest.mark.parametrize("num_heads", [3, 0, -2])
def test_heads_that_do_not_divide_the_width(
    num_heads: int, tensors: Tensors, tmp_path: Path
) -> None:
    file = store(tensors, tmp_path)
    check_refusal(file, "128 wide", f"{num_heads} heads", "num_heads", num_heads=num_heads)


def test_width_from_which_the_heads_cannot_be_told(vit: VisionTransformer, tmp_path: Path) -> None:
    narrow = VisionTransformer(replace(vit.arch, embed_dim=96)).state_dict()
    file = store(narrow, tmp_path)
    check_refusal(file, "96 wide", "give num_heads")
    assert load_backbone(file, num_heads=2).vit.arch.num_heads == 2
