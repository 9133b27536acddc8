"""Runs on texts: which methods learn on a network that is no ViT, and that epochs cost nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from command import ovor
from ovor.config import Run, Transform
from ovor.data import load_dataset
from ovor.encoders import load_backbone
from ovor.errors import OvorError
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute, prepare
from ovor.learners import METHODS
from ovor.presets import settings
from ovor.training.remembering import Remembering
from small_texts import TICKETS, text_folder
from tiny import NARROW

SIZE = Transform(size=16)
VARIANTS = {**NARROW, "ranpac": {"tuning": "none", "projection": 40}, "slca": {"slowdown": 0.0}}
CLOSED = (
    "analytic",
    "simplecil",
    "ranpac",
    "loranpac",
    "klda",
    "randumb",
    "fecam",
    "anacp",
    "shapes",
)
FEATURES = (*CLOSED, "linear", "linear+vor", "slca", "slca+vor")
PROMPTS = {
    "oneprompt": {"lengths": [2, 3]},
    "oneprompt-deep": {"length": 2},
    "dualprompt": {"general_lengths": [2], "expert_layers": [1], "expert_length": 3},
    "l2p": {},
    "coda-p": {"layers": [0, 1]},
    "apt": {},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on 18 tickets of three classes, of which a few are for testing."""
    root = tmp_path_factory.mktemp("texts")
    table, network = root / "tickets.csv", text_folder(root / "network")
    lines = [
        f"{text},{name},{'test' if number % 3 == 0 else 'train'}"
        for name, own in TICKETS.items()
        for number, text in enumerate(own)
    ]
    table.write_text("\n".join(["text,label,split", *lines]))
    run = settings(f"texts:{table}", "linear+vor", tasks=3)
    assert run.vor is not None
    vor = replace(run.vor, epochs=1, npos=replace(run.vor.npos, k=1))
    return replace(run, backbone=f"text:{network}", transform=SIZE, epochs=3, vor=vor, threads=1)


def of(base: Run, name: str) -> Run:
    method = name.removesuffix("+vor")
    options = VARIANTS.get(method) or PROMPTS.get(method) or {}
    return replace(base, method=method, options=options, vor=base.vor if method != name else None)


@pytest.mark.parametrize("name", [*FEATURES, *PROMPTS, "oneprompt+vor", "finetune"])
def test_learns_texts_task_after_task(base: Run, name: str, tmp_path: Path) -> None:
    result = execute(of(base, name), Folder(tmp_path / "run"))
    assert result["tasks"] == [1, 1, 1]
    assert result["class_names"] == list(TICKETS)
    given = result["accuracy_task_id_given"]
    assert given[-1] == [100.0, 100.0, 100.0]  # one class a task
    if name in ("analytic", "simplecil", "ranpac"):  # better than a guess between three
        assert result["metrics"]["pooled_accuracy"] > 40


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_cannot_says_which_can(base: Run, method: str, tmp_path: Path) -> None:
    able = {name.removesuffix("+vor") for name in FEATURES} | PROMPTS.keys() | {"finetune", "joint"}
    if method in able:
        pytest.skip("it can")
    with pytest.raises(OvorError, match=r"needs a vision transformer.*analytic") as said:
        prepare(of(base, method), tmp_path / "checkpoint")
    assert "backbone, such as" not in str(said.value)  # all of those read images


@pytest.mark.parametrize("method", ["ranpac", "klda"])
def test_what_would_tune_names_the_flag_and_not_itself(
    method: str, base: Run, tmp_path: Path
) -> None:
    run = replace(of(base, method), options={"tuning": "adapter"})
    with pytest.raises(OvorError, match=r"\(--method\.tuning none\)") as said:
        prepare(run, tmp_path / "checkpoint")
    assert re.findall(rf"\b{method}\b", str(said.value)) == [method]


def test_images_and_texts_are_not_mixed_up(base: Run, tmp_path: Path) -> None:
    with pytest.raises(OvorError, match=r"has texts, and the backbone embedded reads images"):
        prepare(replace(of(base, "linear"), backbone="embedded"), tmp_path / "checkpoint")
    with pytest.raises(OvorError, match=r"quickdraw-dev has images, and .* reads texts"):
        prepare(replace(of(base, "linear"), data="quickdraw-dev"), tmp_path / "checkpoint")


def test_a_text_goes_through_a_frozen_network_once(
    base: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    computed: list[int] = []
    compute = Remembering.compute

    def counted(self: Remembering, inputs: torch.Tensor, keys: list[bytes]) -> None:
        computed.append(len(keys))
        compute(self, inputs, keys)

    monkeypatch.setattr(Remembering, "compute", counted)
    data = load_dataset(base.data)
    plain = execute(of(base, "linear"), Folder(tmp_path / "plain"))
    assert sum(computed) == len(data.train) + len(data.test)
    computed.clear()
    kept = replace(of(base, "linear"), cache=0.01)
    first = execute(kept, Folder(tmp_path / "first"))
    assert sum(computed) == len(data.train) + len(data.test)
    computed.clear()
    again = execute(replace(of(base, "analytic"), cache=0.01), Folder(tmp_path / "again"))
    assert not computed  # another method, and the features are on the disk
    assert first["accuracy"] == plain["accuracy"]
    assert again["metrics"]["pooled_accuracy"] > 50


def test_what_is_remembered_has_the_bits_of_what_is_computed(base: Run, tmp_path: Path) -> None:
    encoder = load_backbone(base.backbone).encoder
    known = Remembering(encoder, "x", 10**6, str(tmp_path))
    texts = [text for own in TICKETS.values() for text in own]
    views = torch.stack([torch.from_numpy(encoder.reads.view(text, SIZE)) for text in texts])
    inputs = encoder.tensor(views, SIZE)
    with torch.no_grad():
        for some in (inputs[:5], inputs, inputs[3:9]):
            assert torch.equal(known.depths(some, [0, 1]), encoder.depths(some, [0, 1]))
            assert torch.equal(known(some), encoder(some))
    later = Remembering(encoder, "x", 10**6, str(tmp_path))
    later.encoder = torch.nn.Identity()  # type: ignore[assignment]  # nothing is computed anew
    assert torch.equal(later.depths(inputs, [1]), known.depths(inputs, [1]))
    next(tmp_path.glob("??/*.npy")).write_bytes(b"cut off")
    assert torch.equal(Remembering(encoder, "x", 10**6, str(tmp_path))(inputs), known(inputs))


def test_the_command_runs_on_a_table_of_texts(base: Run, tmp_path: Path) -> None:
    said = ovor(
        "run", "--data", base.data, "--backbone", base.backbone, "--method", "analytic",
        "--tasks", "3", "--transform.size", "16", "--out", str(tmp_path / "run"), "--json",
    )  # fmt: skip
    assert json.loads(said.stdout)["method"] == "analytic"
    assert (tmp_path / "run/report.html").exists()


def test_texts_do_not_look_different_by_task(base: Run, tmp_path: Path) -> None:
    with pytest.raises(OvorError, match="has texts: --shift is for images alone"):
        prepare(replace(of(base, "linear"), shift="ink"), tmp_path / "checkpoint")
