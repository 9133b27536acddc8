"""A grid's runs on this machine, on Ray and on SLURM: the same results, whatever dies on the way.

The Ray clusters are of this machine alone, and none of their processes may be left behind.
"""

import json
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from submitit.core.utils import FailedJobError, UncompletedJobError

from command import ovor
from ovor.cli.grid import GridArguments, sbatch_options
from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments import grid
from ovor.experiments.executors.base import Died
from ovor.experiments.executors.ray import QUIET, check_address, on_ray
from ovor.experiments.executors.remote import serve, sharing
from ovor.experiments.executors.slurm import on_slurm, outcome, work
from ovor.experiments.folder import Folder
from ovor.experiments.schedule import Display
from ovor.experiments.status import Status
from ovor.experiments.tables import Row
from processes import alive, end, free_port, start, two_machines, wait_until

TOKEN = secrets.token_hex()  # Ray reads it once in a process
FAKE_SLURM = Path(__file__).parent / "fake_slurm"


class Recorder(Display):
    """Remembers all that it is to show."""

    live = True

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.statuses: list[tuple[str, Status]] = []

    def running(self, statuses: list[tuple[str, Status]]) -> None:
        self.statuses += statuses

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


def test_another_version_or_folder_is_said_and_nothing_written(
    tiny_run: Run, tmp_path: Path
) -> None:
    with sharing(tmp_path / "out") as shared:
        request = replace(shared, patience=0).request(tiny_run, tmp_path / "out" / "run", None)
    error = serve({**request, "ovor": "0.0.1"}, "there")
    assert "0.0.1 where the grid was started: install the same" in str(error)
    error = serve(request, "there")  # the marker is gone, as on a machine of its own
    assert "On there: " in str(error)
    assert "choose an --out that all machines share" in str(error)
    assert not (tmp_path / "out" / "run").exists()


def test_a_killed_workers_lock_is_waited_for(tmp_path: Path) -> None:
    forking = get_context("fork")
    held = forking.Event()
    holder = forking.Process(target=hold, args=(tmp_path, held))
    holder.start()
    assert held.wait(60)
    with pytest.raises(OvorError, match="Another process"), Folder(tmp_path).locked(0.2):
        pass
    Thread(target=lambda: (time.sleep(0.5), holder.kill())).start()
    with Folder(tmp_path).locked(60):
        holder.join()


def hold(folder: Path, held: Any) -> None:
    with Folder(folder).locked():
        held.set()
        time.sleep(60)


@pytest.mark.parametrize("address", ["here", "host:port", "ray://127.0.0.1:10001"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(OvorError, match=f"--ray takes local, auto or HOST:PORT.*{address}"):
        check_address(address)


def test_an_address_where_nobody_listens_is_said_at_once() -> None:
    for port in (free_port(), "99999999"):
        with pytest.raises(OvorError, match="ray start --head"):
            check_address(f"127.0.0.1:{port}")


@pytest.mark.slow
def test_an_address_where_something_else_than_ray_listens_is_said(tmp_path: Path) -> None:
    """Ray reads its settings once in a process, so this takes one of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        code, said, errors = end(start(tmp_path, "ovor", "grid", "--ray", address, "--out", "o"))
    assert (code, said) == (1, "")
    assert errors.splitlines()[-1].startswith(f"ovor: No Ray cluster at {address} (")


RAY, SLURM = ("--ray", "auto"), ("--slurm", "gpu")


@pytest.mark.parametrize(
    ("flags", "missing", "code", "sentence"),
    [
        ((*RAY, *SLURM), "", 2, "choose one"),
        (("--slurm-options", "time=10"), "", 2, "needs --slurm"),
        (("--gpus-per-run", "0.5"), "", 2, "needs --ray or --slurm"),
        ((*SLURM, "--gpus-per-run", "0.5"), "", 2, "whole"),
        (RAY, "ray", 1, "pip install 'ovor[ray]'"),
        (SLURM, "submitit", 1, "pip install 'ovor[slurm]'"),
    ],
)
def test_wrong_flags_and_missing_modules_are_named(
    flags: tuple[str, ...],
    missing: str,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    said = ovor("grid", *flags, cwd=tmp_path)
    assert said.returncode == code
    assert sentence in said.stderr
    assert "quickdraw" not in said.stderr  # other data would not help


def test_options_of_sbatch() -> None:
    given = ("--time=8:00:00", "cpus-per-task=3", "exclusive")
    arguments = GridArguments(slurm="gpu", device="cuda", slurm_options=given)
    assert sbatch_options(arguments) == {
        "partition": "gpu",
        "gpus_per_node": "1",
        "time": "8:00:00",
        "cpus_per_task": "3",
        "exclusive": True,
    }


# What follows computes.


@pytest.fixture(scope="module")
def rows(tiny_run: Run) -> list[Row]:
    """With two seeds, six runs: two families of two, and two runs on their own."""
    assert tiny_run.vor is not None
    longer = replace(tiny_run, epochs=40)
    other = replace(longer, vor=replace(tiny_run.vor, weight=0.5))
    return [Row("plain", replace(longer, vor=None)), Row("vor", longer), Row("more vor", other)]


@pytest.fixture(scope="module")
def expected(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("local")
    assert len(list(grid.run_grid(rows, [0, 1], out, jobs=2))) == 6
    return written(out)


def written(out: Path) -> dict[str, Any]:
    """All that must be the same, by result folder."""
    found = {}
    for file in sorted(out.glob("*/result.json")):
        result = json.loads(file.read_text())
        del result["seconds"], result["core_seconds"]
        found[file.parent.name] = (
            result,
            (file.parent / "weights.safetensors").read_bytes(),
            sorted(path.name for path in file.parent.iterdir()),
        )
    return found


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in out.glob("*/events.jsonl") for line in file.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def kill_one(out: Path) -> None:
    """A worker, once it has learned some epochs and has some left."""
    while True:
        for file in out.glob("*/events.jsonl"):
            lines = [json.loads(line) for line in file.read_text().splitlines(keepends=True)[:-1]]
            if len(lines) > 5 and lines[-1]["event"] == "epoch" and lines[-1]["task"] < 2:
                os.kill(lines[0]["pid"], signal.SIGKILL)
                return
        time.sleep(0.05)


@pytest.fixture
def ray_folder() -> Iterator[Path]:
    """Ray's sockets need a short path; whatever it starts names the folder, and must be gone."""
    folder = Path(tempfile.mkdtemp(prefix="ovor-", dir="/tmp"))
    settings = {"RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with patch.dict(os.environ, settings | QUIET):
        os.environ.pop("RAY_ADDRESS", None)
        yield folder
    limit = time.monotonic() + 240
    while (left := processes_of(folder)) and time.monotonic() < limit:
        time.sleep(0.2)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left


def processes_of(folder: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.slow
def test_ray_gives_the_same_though_a_worker_is_killed(
    rows: list[Row], expected: dict[str, Any], ray_folder: Path, tmp_path: Path
) -> None:
    recorder = Recorder()
    Thread(target=kill_one, args=(tmp_path,), daemon=True).start()
    place = on_ray("local", tmp_path, "cpu", None, jobs=2)
    assert len(list(grid.run_on(place, rows, [0, 1], tmp_path, recorder))) == 6
    assert written(tmp_path) == expected
    assert len(recorder.sentences) == 1
    assert "WorkerCrashed" in recorder.sentences[0]
    assert len(events(tmp_path, "worker")) == 7
    assert any(event["epoch"] for event in events(tmp_path, "begin"))  # it went on from there
    assert {at.node for _, at in recorder.statuses} - {""}
    # What is done is not done again, and needs no cluster.
    nowhere = on_ray("127.0.0.1:1", tmp_path, "cpu", None, jobs=2)
    assert len(list(grid.run_on(nowhere, rows, [0, 1], tmp_path))) == 6
    assert [path.name for path in tmp_path.glob(".*")] == [grid.VOR_CACHES]


@pytest.mark.slow
def test_two_ray_machines_share_a_grid(
    rows: list[Row], expected: dict[str, Any], ray_folder: Path, tmp_path: Path
) -> None:
    from ray.cluster_utils import Cluster

    each = {"num_cpus": 1, "object_store_memory": 100_000_000}
    head = {**each, "include_dashboard": False, "temp_dir": str(ray_folder / "ray")}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(**each)
        place = on_ray(cluster.address, tmp_path, "auto", None, None)
        assert len(list(grid.run_on(place, rows, [0, 1], tmp_path))) == 6
        assert len({event["node"] for event in events(tmp_path, "worker")}) == 2
        assert written(tmp_path) == expected
        many = [Row("many", replace(rows[0].run, workers=3, lr=0.5))]
        place = on_ray(cluster.address, tmp_path, "cpu", None, None)
        with pytest.raises(OvorError, match="has the 4 CPU and 0 GPU of a run"):
            list(grid.run_on(place, many, [0], tmp_path))
    finally:
        cluster.shutdown()


IN_A_NAMESPACE = """
import pickle, sys
from ovor.experiments import grid
from ovor.experiments.executors.ray import on_ray
rows, out, address = pickle.load(sys.stdin.buffer)
list(grid.run_on(on_ray(address, out, "auto", None, None), rows, [0, 1], out))
"""


@pytest.mark.slow
def test_two_network_namespaces_share_a_grid(
    rows: list[Row], expected: dict[str, Any], ray_folder: Path, tmp_path: Path
) -> None:
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1"]
    ray += ["--object-store-memory=100000000", "--disable-usage-stats", "--log-color=false"]
    with two_machines() as link:
        head, _ = link.addresses
        first = ["--head", "--port=6379", "--include-dashboard=false"]
        first += [f"--temp-dir={ray_folder}/ray"]
        second = [f"--address={head}:6379"]
        for node, arguments in enumerate([first, second]):
            where = f"--node-ip-address={link.addresses[node]}"
            subprocess.run([*link.inside(node), *ray, where, *arguments], check=True)
        subprocess.run(
            [*link.inside(0), sys.executable, "-c", IN_A_NAMESPACE],
            input=pickle.dumps((rows, tmp_path, f"{head}:6379")),
            check=True,
        )
    assert len({event["node"] for event in events(tmp_path, "worker")}) == 2
    assert written(tmp_path) == expected


@pytest.mark.slow
def test_ctrl_c_stops_ray_and_keeps_checkpoints(ray_folder: Path, tmp_path: Path) -> None:
    command = ("ovor", "grid", "--data", "quickdraw-dev", "--ray", "local", "--out", "o")
    flags = ("--tasks", "3", "--epochs", "3", "--seeds", "0", "--jobs", "1")
    started = start(tmp_path, *command, *flags)
    wait_until(lambda: list(tmp_path.glob("o/*/checkpoint.safetensors")), 200)
    started.send_signal(signal.SIGINT)
    sentence = "Stopped. The same command continues; --show prints what is there.\n"
    assert end(started) == (130, "", sentence)
    assert list(tmp_path.glob("o/*/checkpoint.safetensors"))


def test_a_worker_does_what_this_process_would(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the worker goes where the grid was started
    run = replace(tiny_run, vor=None)
    grid.execute_one(run, tmp_path / "here" / "run", None)
    with sharing(tmp_path / "there") as shared:
        request = shared.request(run, tmp_path / "there" / "run", None)
        response = serve(json.loads(json.dumps(request)), "there")
        assert serve(request, "there") == response  # once more: it is done
    assert written(tmp_path / "there") == written(tmp_path / "here")
    assert len(events(tmp_path / "there", "worker")) == 1


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch, srun, sacct and scancel that run jobs on this machine."""
    shutil.copytree(FAKE_SLURM, tmp_path / "bin")
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(jobs))
    return jobs


@pytest.mark.slow
def test_slurm_gives_the_same_though_a_job_is_killed(
    rows: list[Row], expected: dict[str, Any], slurm: Path, tmp_path: Path
) -> None:
    recorder, out = Recorder(), tmp_path / "out"
    Thread(target=kill_one, args=(out,), daemon=True).start()
    place = on_slurm({"partition": "night", "time": "1:00:00"}, out, jobs=2)
    assert len(list(grid.run_on(place, rows, [0, 1], out, recorder))) == 6
    assert written(out) == expected
    assert not list(out.glob(".slurm*"))
    assert len(recorder.sentences) == 1
    scripts = [file.read_text() for file in slurm.glob("*.sh")]
    assert len(scripts) == 7
    assert all("--partition=night" in s and "--time=1:00:00" in s for s in scripts)
    assert all("--cpus-per-task=1" in s and "--mem=8G" in s for s in scripts)


def test_a_job_that_made_a_mistake_is_not_tried_again(tmp_path: Path) -> None:
    """But one that SLURM ended is."""

    class Job:
        job_id, state, paths = "7", "TIMEOUT", SimpleNamespace(stderr=tmp_path / "7.err")

        def __init__(self, error: Exception) -> None:
            self.error = error

        def result(self) -> None:
            raise self.error

    with pytest.raises(RuntimeError, match=r"job 7 failed, see .*7\.err"):
        outcome(Job(FailedJobError("a traceback")))
    died = outcome(Job(UncompletedJobError("no output")))
    assert died == Died(f"job 7, TIMEOUT, see {tmp_path / '7.err'}")


def test_a_job_goes_on_until_slurm_ends_it(tiny_run: Run, tmp_path: Path) -> None:
    """submitit's signal some time before the limit does not end it."""
    before = signal.getsignal(signal.SIGUSR2)
    try:
        with sharing(tmp_path) as shared:
            work({**shared.request(tiny_run, tmp_path / "run", None), "ovor": "0"})
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_job_that_slurm_refuses_is_said(slurm: Path, tiny_run: Run, tmp_path: Path) -> None:
    (slurm.parent / "bin" / "sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition specified: dawn' >&2\nexit 1\n"
    )
    place = on_slurm({"partition": "dawn"}, tmp_path / "out", jobs=None)
    with pytest.raises(OvorError, match="invalid partition specified: dawn"):
        list(grid.run_on(place, [Row("vor", tiny_run)], [0], tmp_path / "out"))


def test_ctrl_c_cancels_the_jobs(slurm: Path, tiny_run: Run, tmp_path: Path) -> None:
    sbatch = slurm.parent / "bin" / "sbatch"
    sbatch.write_text(
        sbatch.read_text().replace('setsid bash "$FAKE_SLURM/$id.sh"', "setsid sleep 60")
    )

    class Impatient(Recorder):
        def running(self, statuses: list[tuple[str, Status]]) -> None:
            raise KeyboardInterrupt

    place = on_slurm({}, tmp_path / "out", jobs=None)
    with pytest.raises(KeyboardInterrupt):
        list(grid.run_on(place, [Row("vor", tiny_run)], [0], tmp_path / "out", Impatient()))
    (pid,) = (int(file.read_text()) for file in slurm.glob("*.pid"))
    wait_until(lambda: not alive(pid))
