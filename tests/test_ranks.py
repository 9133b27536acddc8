"""One run by one, two or three processes (gloo): the same result, one sentence when one stops."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes

from ovor.config import RUN, Npos, OvorError, Run
from ovor.data.views import Views
from ovor.experiments.folder import Folder
from ovor.experiments.single import assist, execute, prepare
from ovor.experiments.together import crew_of
from ovor.learners import takes_vor
from ovor.outliers import boundary, knn, synthesize
from ovor.ranks import ALONE, Ranks
from ovor.seeds import generator
from ovor.train import descend, features_and_outliers

pytestmark = pytest.mark.xdist_group("ranks")  # they share runs that take a while

CPU = torch.device("cpu")
# float32 sums in another order differ in the seventh digit; Adam divides by the gradient's size, so
# that such a difference in a gradient of nearly zero is one of the step. A hundredth of one step:
CLOSE = 1e-4  # of lr 1e-2
SECONDS = 120  # for anything here, on a busy machine


def together(size: int, folder: Path, work: Callable[..., None], *args: Any) -> None:
    """In so many processes; forked, as loading torch anew would take longer than all the rest."""
    folder.mkdir(parents=True, exist_ok=True)
    meeting = folder / f"meeting-{time.monotonic_ns()}"
    arguments = (size, str(meeting), work, args)
    processes = start_processes(_joined, arguments, nprocs=size, join=False, start_method="fork")
    end = time.monotonic() + SECONDS
    while not processes.join(timeout=1):
        assert time.monotonic() < end


def _joined(
    rank: int, size: int, meeting: str, work: Callable[..., None], args: tuple[Any, ...]
) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    work(Ranks(rank, size), *args)
    dist.barrier()


# Shares and sums


@given(count=st.integers(0, 50), size=st.integers(1, 9))
def test_shares_are_all_rows_in_order_and_about_equal(count: int, size: int) -> None:
    rows = list(range(count))
    shares = [rows[Ranks(rank, size).share(count)] for rank in range(size)]
    assert list(chain(*shares)) == rows
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    firsts = [rows[Ranks(rank, size).first_only(count)] for rank in range(size)]
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
    mine = rows[ranks.share(len(rows))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    images, labels = mine[:, :3], mine[:, 3]
    loss = descend(model, optimizer, torch.Tensor.backward, images, labels, 2, len(rows), ranks)
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
    alone = Views.of(batches)
    looked: list[int] = []

    def look(images: Tensor) -> Tensor:
        looked.append(len(images))
        return 2 * images

    expected = list(alone.seen(lambda images: 2 * images))
    found = list(Views(alone.load, alone.lengths, ranks).seen(look))
    for pair, other in zip(found, expected, strict=True):
        assert all(map(torch.equal, pair, other))
    assert len(looked) == -(-len(batches) // ranks.size)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_all_see_what_each_has_seen_in_order(count: int, tmp_path: Path) -> None:
    lengths = [*[4] * (count - 1), 3]
    batches = [(torch.randn(n, 2), torch.full((n,), number)) for number, n in enumerate(lengths)]
    together(3, tmp_path, look_like_one, batches)


# Whole runs

METHODS: dict[str, dict[str, Any]] = {
    "oneprompt": {},
    "l2p": {"match": "sample"},
    "l2p batch": {"match": "batch"},
    "dualprompt": {},
    "coda-p": {"ortho": 0.1},  # a penalty that is no mean over images
    "l2": {"weight": 1.0},  # another
    "linear": {},
    "simplecil": {},
    "adam-adapter": {},
    "ranpac": {"projection": 20},
    "slca": {},
    "a-prompt": {},
}


def runs(tiny_run: Run) -> dict[str, Run]:
    return {
        name: replace(
            tiny_run,
            method=name.split()[0],
            options=options,
            vor=tiny_run.vor if takes_vor(name.split()[0]) else None,
        )
        for name, options in METHODS.items()
    }


def copying(folder: Folder, to: Path) -> Callable[[dict[str, Any]], None]:
    """Takes a copy in the middle of the second task, as if the run had been stopped there."""

    def listen(event: dict[str, Any]) -> None:
        if (event["event"], event.get("task"), event.get("epoch")) == ("train", 1, 1):
            shutil.copytree(folder.path, to, dirs_exist_ok=True)

    return listen


def do(ranks: Ranks, run: Run, folder: Path, copy: Path | None = None) -> None:
    if ranks.rank:
        assist(run, ranks, CPU)
    else:
        here = Folder(folder)
        listen = copying(here, copy) if copy else lambda event: None
        execute(run, here, listen, ranks=ranks, device=CPU)


def do_all(ranks: Ranks, run: Run, root: Path, others: Path) -> None:
    for name, one in runs(run).items():
        do(ranks, one, root / name, root / "stopped" if name == "coda-p" else None)
    make_outliers(ranks, run, root)
    if ranks.size == 2:  # what one process began
        do(ranks, runs(run)["coda-p"], others / "stopped")


def make_outliers(ranks: Ranks, run: Run, root: Path) -> None:
    session, learner = prepare(run, root / "none", ranks=ranks, device=CPU)
    learner.begin_task(3, (0, 0))
    assert run.vor is not None
    features, labels, outliers = features_and_outliers(session, learner, run.vor, 0, 0)
    names = {"features": features, "labels": labels, "outliers": outliers}
    save_file(names, root / f"outliers-{ranks.rank}.safetensors")


@pytest.fixture(scope="module")
def done(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """All methods by one, two and three processes."""
    roots = {size: tmp_path_factory.mktemp(f"by-{size}") for size in (1, 2, 3)}
    do_all(ALONE, tiny_run, roots[1], roots[1])
    for size in (2, 3):
        together(size, roots[size], do_all, tiny_run, roots[size], roots[1])
    return roots


def difference(one: Path, other: Path) -> float:
    """The largest, in all that was learned or kept."""
    found, expected = (load_file(path / "weights.safetensors") for path in (one, other))
    assert found.keys() == expected.keys()
    pairs = [(without_key_biases(found[k]), without_key_biases(expected[k])) for k in found]
    return max((a.double() - b.double()).abs().max().item() for a, b in pairs)


def without_key_biases(tensor: Tensor) -> Tensor:
    """Attention does not feel them: their gradient is nothing but rounding, of which Adam makes
    whole steps. That concerns L2, which trains attention by Adam."""
    return tensor.view(3, -1)[::2] if tensor.shape == (3 * 64,) else tensor


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_that_of_one_process(name: str, size: int, done: dict[int, Path]) -> None:
    one, many = (Folder(done[n] / name).result() for n in (1, size))
    assert many["processes"] == size
    for key in ("accuracy", "accuracy_task_id_given", "metrics"):
        assert many[key] == one[key]
    limit = {"simplecil": 0.0, "l2p batch": 0.0, "l2": 10 * CLOSE}.get(name, CLOSE)
    assert difference(done[size] / name, done[1] / name) <= limit


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_losses_do_not_grow_with_the_number_of_processes(
    name: str, size: int, done: dict[int, Path]
) -> None:
    """Those of prompts and penalties too, which the released code multiplies."""
    one, many = (losses(done[n] / name) for n in (1, size))
    assert many == pytest.approx(one, rel=1e-3 if name == "l2" else 1e-4)
    assert bool(one) == (name != "simplecil")


def losses(folder: Path) -> list[float]:
    events = map(json.loads, Folder(folder).events_file.read_text().splitlines())
    return [event["loss"] for event in events if event["event"] == "epoch"]


def search_like_one(ranks: Ranks, cases: list[Npos]) -> None:
    """Of features in clusters, some of them twice: ties are decided alike too."""
    features = torch.randn(20, 16, generator=generator(0)).repeat_interleave(15, 0)
    features += 0.3 * torch.randn(300, 16, generator=generator(1))
    features[7:9] = features[:2]
    labels = torch.arange(300) // 100
    for npos in cases:
        found, expected = (
            synthesize(features, labels, 3, npos, generator(2), None, some)
            for some in (ranks, ALONE)
        )
        assert torch.equal(found, expected)


@pytest.mark.parametrize("size", [2, 3])
def test_outliers_are_searched_together(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In many tiles and blocks, in one, and by the way for many features."""
    usual = Npos(k=5, noise=20, beta=8, alpha=4)
    spaces = [replace(usual, space=space) for space in ("raw", "unit", "mixed")]
    others = [{"per_class": True}, {"sample": 50}, {"add_boundary": False}]
    cases = [*spaces, *(replace(usual, **other) for other in others)]
    together(size, tmp_path, search_like_one, cases)
    monkeypatch.setattr(knn, "COLUMNS", 32)
    monkeypatch.setattr(knn, "CHUNK_ELEMENTS", 32 * 16)
    monkeypatch.setattr(knn, "FEWEST_ROWS", 1)
    together(size, tmp_path, search_like_one, cases)
    monkeypatch.setattr(boundary, "FEW_POINTS", 1)
    together(size, tmp_path, search_like_one, cases)


@pytest.mark.parametrize("size", [2, 3])
def test_the_outliers_are_the_same(size: int, done: dict[int, Path]) -> None:
    expected = load_file(done[1] / "outliers-0.safetensors")
    for rank in range(size):
        found = load_file(done[size] / f"outliers-{rank}.safetensors")
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_run_continues_with_more_processes(done: dict[int, Path]) -> None:
    assert Folder(done[1] / "stopped").result()["processes"] == 2
    assert difference(done[1] / "stopped", done[1] / "coda-p") <= CLOSE


def test_a_run_continues_with_fewer_processes(done: dict[int, Path], tiny_run: Run) -> None:
    stopped = done[3] / "stopped"
    assert not Folder(stopped).finished
    begun = replace(runs(tiny_run)["coda-p"], devices=3)
    execute(begun, Folder(stopped))
    assert Folder(stopped).result()["accuracy"] == Folder(done[1] / "coda-p").result()["accuracy"]
    assert difference(stopped, done[1] / "coda-p") <= CLOSE


# The command line


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What runs in the background is deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    return process.returncode, said, errors


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.05)


def children(process: subprocess.Popen[str]) -> Iterator[int]:
    """The processes that do the run, in the order in which they were started."""
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            yield int(pid)


@pytest.fixture
def place(tmp_path: Path, tiny_run: Run) -> Path:
    (tmp_path / "run.json").write_bytes(RUN.dump_json(tiny_run))
    long = replace(tiny_run, epochs=2000, vor=None)
    (tmp_path / "long.json").write_bytes(RUN.dump_json(long))
    return tmp_path


def test_when_a_process_is_killed_the_run_stops_with_a_sentence(place: Path) -> None:
    process = start(place, "ovor", "run", "--from", "long.json", "--out", "o", "--devices", "2")
    wait_for(place / "o/checkpoint.safetensors", process)
    *_, last = children(process)
    killed = time.monotonic()
    os.kill(last, signal.SIGKILL)
    code, said, errors = end(process)
    assert time.monotonic() - killed < 60
    assert (code, said) == (1, "")
    assert re.fullmatch(r"ovor: Process 2 of 2 died, .*--resume continues.*\n", errors)
    assert not (place / "o/result.json").exists()


def test_an_image_that_one_process_cannot_read_stops_all(place: Path, tiny_run: Run) -> None:
    shutil.copytree(tiny_run.data.removeprefix("folder:"), place / "images")
    (place / "images/train/class0/3.png").write_bytes(b"no image")
    broken = replace(tiny_run, data=f"folder:{place / 'images'}")
    (place / "run.json").write_bytes(RUN.dump_json(broken))
    process = start(place, "ovor", "run", "--from", "run.json", "--out", "o", "--devices", "2")
    code, said, errors = end(process)
    assert (code, said) == (1, "")
    assert errors.count("\n") == 1
    assert "class0/3.png" in errors


def test_ctrl_c_stops_all_and_says_how_to_continue(place: Path) -> None:
    process = start(place, "ovor", "run", "--from", "long.json", "--out", "o", "--devices", "2")
    wait_for(place / "o/checkpoint.safetensors", process)
    working = list(children(process))
    assert len(working) == 2
    process.send_signal(signal.SIGINT)
    code, _, errors = end(process)
    assert code == 130
    assert errors.endswith("Stopped. Continue with: ovor run --resume --out o\n")
    assert not any(Path(f"/proc/{pid}").exists() for pid in working)


def test_who_started_the_processes_is_found_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(devices=3)
    crew = crew_of(run)
    assert (crew.size, crew.started, crew.first) == (3, False, True)
    slurm = {"NTASKS": 4, "NNODES": 2, "PROCID": 3, "LOCALID": 1, "NODEID": 1, "JOB_ID": 7}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    with pytest.raises(OvorError, match="--ntasks-per-node"):
        crew_of(run)
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "2")
    crew = crew_of(run)
    assert (crew.devices, crew.nodes, crew.started, crew.first) == (2, 2, True, False)
    monkeypatch.setenv("SLURM_NTASKS", "1")  # a job of one task may start its own
    assert crew_of(run).devices == 3
    assert not crew_of(run).started


TORCHRUN = ("torch.distributed.run", "--nproc-per-node", "2", "--master-port")


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def test_started_by_torchrun(place: Path, done: dict[int, Path]) -> None:
    """One folder, one result, one voice; and no flag is needed."""
    ovor = ("-m", "ovor", "run", "--from", "run.json", "--json")
    code, said, errors = end(start(place, *TORCHRUN, free_port(), *ovor, OMP_NUM_THREADS="1"))
    assert code == 0, errors
    result = json.loads(said)
    assert result["processes"] == 2
    assert result["accuracy"] == Folder(done[1] / "oneprompt").result()["accuracy"]
    assert errors.count("task  1/3") == 1
    (folder,) = (place / "runs").iterdir()
    assert difference(folder, done[2] / "oneprompt") <= CLOSE


def test_on_two_machines(place: Path, done: dict[int, Path]) -> None:
    """The second neither writes nor speaks."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    command = ("ovor", "run", "--from", "run.json", "--out", "o", "--nodes", "2", "--json")
    nodes = [start(place, *command, **meeting, NODE_RANK=str(node)) for node in (0, 1)]
    (code, said, errors), second = (end(node) for node in nodes)
    assert second == (0, "", "")
    assert code == 0, errors
    assert json.loads(said)["processes"] == 2
    assert difference(place / "o", done[2] / "oneprompt") <= CLOSE


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_when_a_process_is_killed_both_machines_hear_of_it(place: Path, rank: int) -> None:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    command = ("ovor", "run", "--from", "long.json", "--out", "o", "--nodes", "2")
    nodes = [start(place, *command, **meeting, NODE_RANK=str(node)) for node in (0, 1)]
    wait_for(place / "o/checkpoint.safetensors", nodes[0])
    (killed,) = children(nodes[rank])
    moment = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    for code, said, errors in [end(node) for node in nodes]:
        assert (code, said) == (1, "")
        assert re.fullmatch(rf"ovor: Process {rank + 1} of 2 died, .*--resume.*\n", errors)
    assert time.monotonic() - moment < 60
