"""One run by one, two or three processes (gloo): the same result."""

import json
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ovor import learners
from ovor.config import Npos, Run
from ovor.data.batches import Batches
from ovor.distributed.ranks import ALONE, Ranks
from ovor.events import Event, Listener, TrainStep
from ovor.experiments.folder import Folder
from ovor.experiments.runner import assist, execute, prepare
from ovor.learners import takes_vor
from ovor.outliers import boundary, candidates, knn, synthesize
from ovor.seeds import generator
from ovor.training.features import Features
from ovor.training.loop import features_and_outliers, train_step
from processes import CLOSE, CLOSE_BY_SGD, difference, together
from tiny import batches_of

pytestmark = pytest.mark.xdist_group("ranks")  # they share runs that take a while

CPU = torch.device("cpu")

# Shares and sums


@given(count=st.integers(0, 50), size=st.integers(1, 9))
def test_shares_are_all_rows_in_order_and_about_equal(count: int, size: int) -> None:
    rows = list(range(count))
    shares = [rows[Ranks(rank, size).shard(count)] for rank in range(size)]
    assert list(chain(*shares)) == rows
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    firsts = [rows[Ranks(rank, size).all_on_first(count)] for rank in range(size)]
    assert list(chain(*firsts)) == firsts[0] == rows


class Penalised(nn.Module):
    """A mean over images, a penalty that is none, and a parameter that some images do not use."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.used = nn.Parameter(torch.randn(3, generator=draw))
        self.sometimes = nn.Parameter(torch.randn(3, generator=draw))
        self.never = nn.Parameter(torch.randn(3, generator=draw))

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = (images @ self.used - labels).square().mean() + self.used.square().sum()
        chosen = images[:, 0] > 1
        return loss + (images @ self.sometimes * chosen).mean() if chosen.any() else loss


def gradients(ranks: Ranks, rows: Tensor) -> list[Tensor | None]:
    """Of one step, with the loss."""
    model: Any = Penalised()
    mine = rows[ranks.shard(len(rows))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    images, labels = mine[:, :3], mine[:, 3]
    loss = train_step(model, optimizer, torch.Tensor.backward, images, labels, 2, len(rows), ranks)
    return [loss, *(p.grad for p in model.parameters())]


def sum_like_one(ranks: Ranks, cases: list[Tensor]) -> None:
    for rows in cases:
        for found, expected in zip(gradients(ranks, rows), gradients(ALONE, rows), strict=True):
            if expected is None:
                assert found is None
            else:
                assert found is not None
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=2)
@given(counts=st.lists(st.integers(1, 8), min_size=20, max_size=20), seed=st.integers(0, 99))
def test_gradients_add_up_to_those_of_one_process(
    counts: list[int], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also where a process has no image; what no process uses keeps no gradient."""
    draw = torch.Generator().manual_seed(seed)
    cases = [torch.randn(count, 4, generator=draw) for count in counts]
    assert any(case[:, 0].max() > 1 for case in cases)
    assert not all(case[:, 0].max() > 1 for case in cases)
    together(3, tmp_path_factory.mktemp("sums"), sum_like_one, cases)


def look_like_one(ranks: Ranks, batches: list[tuple[Tensor, Tensor]]) -> None:
    alone = batches_of(batches)
    looked: list[int] = []

    def look(images: Tensor) -> Tensor:
        looked.append(len(images))
        return 2 * images

    expected = list(alone.encoded(lambda images: 2 * images))
    found = list(Batches(alone.load, alone.lengths, ranks).encoded(look))
    for pair, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, pair, other))
    assert len(looked) == -(-len(batches) // ranks.size)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_all_see_what_each_has_seen_in_order(count: int, tmp_path: Path) -> None:
    lengths = [*[4] * (count - 1), 3]
    batches = [(torch.randn(n, 2), torch.full((n,), number)) for number, n in enumerate(lengths)]
    together(3, tmp_path, look_like_one, batches)


# Whole runs

SIZES = [3, pytest.param(2, marks=pytest.mark.slow)]  # processes
METHODS: dict[str, dict[str, Any]] = {
    "oneprompt": {},
    "l2p": {"match": "sample"},
    "l2p batch": {"match": "batch"},
    "dualprompt": {},
    "apt": {},
    "coda-p": {"ortho": 0.1},  # a penalty that is no mean over images
    "l2": {"weight": 1.0},  # another
    "linear": {},
    "analytic": {},
    "simplecil": {},
    "adam-adapter": {},
    "ranpac": {"projection": 20},
    "loranpac": {"projection": 20},
    "klda": {"projection": 20},
    "randumb": {"projection": 20},
    "fecam": {},
    "shapes": {},
    "anacp": {"projection": 20, "heads": 2, "classifier": 20, "samples": 5},
    "anacp tuned": {"projection": 20, "heads": 2, "classifier": 20, "tuning": "adapter"},
    "simplecil repetition": {},
    "ranpac repetition": {"projection": 20},
    "slca": {},
    "a-prompt": {},
    "ssiat": {"samples": 20},
    "rsiat": {"samples": 20, "warm_up": 1},
    "ease": {},
}
# One of a kind is enough: what these tune, where they prompt, or a penalty that l2 has, is all that
# differs from another.
ALIKE = {
    *("oneprompt-deep", "adam-finetune", "adam-vpt-shallow", "adam-vpt-deep", "adam-ssf"),
    *("finetune", "joint"),
}
UNTRAINED = ("analytic", "simplecil", "loranpac", "klda", "randumb", "fecam", "anacp", "shapes")


@pytest.fixture(scope="module")
def tiny_run(tiny_run: Run) -> Run:
    """The run with one thread, as forked processes have no other: some results are equal bits."""
    return replace(tiny_run, threads=1)


def runs(tiny_run: Run) -> dict[str, Run]:
    return {
        name: replace(
            tiny_run,
            method=name.split()[0],
            options=options,
            vor=tiny_run.vor if takes_vor(name.split()[0]) else None,
            scenario="repetition" if name.endswith("repetition") else "classes",
        )
        for name, options in METHODS.items()
    }


def copying(folder: Folder, to: Path) -> Listener:
    """Takes a copy in the middle of the second task, as if the run had been stopped there."""

    def listen(event: Event) -> None:
        if isinstance(event, TrainStep) and (event.task, event.epoch) == (1, 1):
            shutil.copytree(folder.path, to, dirs_exist_ok=True)

    return listen


def do(ranks: Ranks, run: Run, folder: Path, copy: Path | None = None) -> None:
    if ranks.rank:
        assist(run, Folder(folder), ranks, CPU)
    else:
        here = Folder(folder)
        listen = copying(here, copy) if copy else lambda event: None
        execute(run, here, listen, ranks=ranks, device=CPU)


def do_all(ranks: Ranks, run: Run, root: Path, others: Path) -> None:
    for name, one in runs(run).items():
        do(ranks, one, root / name, root / "stopped" if name == "coda-p" else None)
    make_outliers(ranks, run, root)
    if ranks.size == 3:  # what one process began
        do(ranks, runs(run)["coda-p"], others / "stopped")


def make_outliers(ranks: Ranks, run: Run, root: Path) -> None:
    context, learner = prepare(run, root / "none", ranks=ranks, device=CPU)
    learner.begin_task(3, (0, 0))
    assert run.vor is not None
    features, labels, outliers = features_and_outliers(
        context, learner, Features(context), run.vor, 0, 0
    )
    names = {"features": features, "labels": labels, "outliers": outliers}
    save_file(names, root / f"outliers-{ranks.rank}.safetensors")


class Done(dict[int, Path]):
    """The folder of all methods by so many processes, made when it is first asked for."""

    def __init__(self, run: Run, root: Path) -> None:
        self.run, self.root = run, root

    def __missing__(self, size: int) -> Path:
        folder = self[size] = self.root / f"by-{size}"
        folder.mkdir()
        if size == 1:
            do_all(ALONE, self.run, folder, folder)
        else:
            together(size, folder, do_all, self.run, folder, self[1])
        return folder


@pytest.fixture(scope="module")
def done(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return Done(tiny_run, tmp_path_factory.mktemp("done"))


def test_every_method_or_one_of_its_kind_is_run_by_several_processes() -> None:
    assert {name.split()[0] for name in METHODS} | ALIKE == set(learners.METHODS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_that_of_one_process(name: str, size: int, done: Done) -> None:
    one, many = (Folder(done[n] / name).result() for n in (1, size))
    assert many["processes"] == size
    # No test image is as near to two classes as rounding could bring it.
    for key in ("accuracy", "accuracy_task_id_given", "class_right", "metrics"):
        assert many[key] == one[key]
    limits = dict.fromkeys((*UNTRAINED, "l2p batch"), 0.0)  # these share no sum
    limits |= dict.fromkeys(("adam-adapter", "ranpac", "slca", "a-prompt"), CLOSE_BY_SGD)
    limits |= dict.fromkeys(("ssiat", "rsiat", "ease", "anacp tuned"), CLOSE_BY_SGD)
    limit = limits.get(name.removesuffix(" repetition"), CLOSE)
    assert difference(done[size] / name, done[1] / name) <= limit


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", METHODS)
def test_losses_do_not_grow_with_the_number_of_processes(name: str, size: int, done: Done) -> None:
    """Those of prompts and penalties too, which the released code multiplies."""
    one, many = (losses(done[n] / name) for n in (1, size))
    assert many == pytest.approx(one, rel=CLOSE)
    assert bool(one) == (name.removesuffix(" repetition") not in UNTRAINED)


def losses(folder: Path) -> list[float]:
    events = map(json.loads, Folder(folder).events_file.read_text().splitlines())
    return [event["loss"] for event in events if event["event"] == "epoch"]


def search_like_one(ranks: Ranks, cases: list[Npos]) -> None:
    """Of features in clusters, some of them twice: ties are decided alike too."""
    features = torch.randn(20, 16, generator=generator(0)).repeat_interleave(15, 0)
    features += 0.3 * torch.randn(300, 16, generator=generator(1))
    features[7:9] = features[:2]
    for case in cases:
        found, expected = (
            synthesize(features, 3, case, generator(2), None, some) for some in (ranks, ALONE)
        )
        assert torch.equal(found, expected)


@pytest.mark.parametrize("size", SIZES)
def test_outliers_are_searched_together(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one tile and block, in many, and by the way for many features."""
    usual = Npos(k=5, noise=20, beta=8, alpha=4)
    spaces = [replace(usual, space=space) for space in ("raw", "unit", "mixed")]
    cases = [*spaces, replace(usual, add_boundary=False)]
    together(size, tmp_path, search_like_one, cases)
    monkeypatch.setattr(knn, "COLUMNS", 32)
    monkeypatch.setattr(knn, "CHUNK_ELEMENTS", 32 * 16)
    monkeypatch.setattr(knn, "FEWEST_ROWS", 1)
    together(size, tmp_path, search_like_one, cases)
    monkeypatch.setattr(candidates, "KEPT_TABLES", 0)
    monkeypatch.setattr(boundary, "FEW_POINTS", 1)
    together(size, tmp_path, search_like_one, cases)


@pytest.mark.parametrize("size", SIZES)
def test_the_outliers_are_the_same(size: int, done: Done) -> None:
    expected = load_file(done[1] / "outliers-0.safetensors")
    for rank in range(size):
        found = load_file(done[size] / f"outliers-{rank}.safetensors")
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_run_continues_with_more_processes(done: Done) -> None:
    assert done[3]
    assert Folder(done[1] / "stopped").result()["processes"] == 3
    assert difference(done[1] / "stopped", done[1] / "coda-p") <= CLOSE


def test_a_run_continues_with_fewer_processes(done: Done, tiny_run: Run) -> None:
    stopped = done[3] / "stopped"
    assert not Folder(stopped).finished
    begun = replace(runs(tiny_run)["coda-p"], devices=3)
    execute(begun, Folder(stopped))
    assert Folder(stopped).result()["accuracy"] == Folder(done[1] / "coda-p").result()["accuracy"]
    assert difference(stopped, done[1] / "coda-p") <= CLOSE
