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
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from ovor.cli.grid import GridArguments, sbatch_options
from ovor.config import Run
from ovor.errors import OvorError
from ovor.events import EpochEnds, RunBegins, TaskEnds, WorkerStarts
from ovor.experiments import grid
from ovor.experiments.executors.base import Died, PlaceError
from ovor.experiments.executors.ray import check_address, on_ray
from ovor.experiments.executors.remote import carry_out, shared
from ovor.experiments.executors.slurm import on_slurm, outcome, work
from ovor.experiments.folder import Folder
from ovor.experiments.progress import standing_table
from ovor.experiments.schedule import Job, work_through
from ovor.experiments.status import Standing, Tail
from ovor.experiments.tables import Row
from processes import two_machines

TOKEN = secrets.token_hex()  # Ray reads it once in a process
FAKE_SLURM = Path(__file__).parent / "fake_slurm"


class Heard:
    """A watch that remembers."""

    live = True

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.standings: list[tuple[str, Standing]] = []

    def running(self, standings: list[tuple[str, Standing]]) -> None:
        self.standings += standings

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


class Script:
    """An executor that ends runs as it is told, in the order that they come."""

    def __init__(self, *outcomes: dict[str, Any] | Died, jobs: int | None = None) -> None:
        self.jobs = jobs
        self.outcomes = deque(outcomes)
        self.handed: deque[Path] = deque()
        self.at_once: list[int] = []

    def submit(self, run: Run, path: Path, stem: Path | None) -> None:
        self.handed.append(path)
        self.at_once.append(len(self.handed))

    def ended(self, seconds: float) -> Iterator[tuple[Path, dict[str, Any] | Died]]:
        yield self.handed.popleft(), self.outcomes.popleft()


def job(name: str, folder: Path, stem: Path | None = None) -> Job:
    return Job(name, Run(), folder / name, stem)


def test_the_others_of_a_family_wait_for_its_first(tmp_path: Path) -> None:
    stem = tmp_path / "stem"
    jobs = [job("first", tmp_path, stem), job("alone", tmp_path), job("second", tmp_path, stem)]
    script = Script({}, {}, {})
    done = [one.name for one, _ in work_through(jobs, script)]
    assert done == ["first", "alone", "second"]
    assert script.at_once == [1, 2, 2]  # "second" came when "first" was done


def test_no_more_runs_at_a_time_than_asked_for(tmp_path: Path) -> None:
    script = Script({}, {}, {}, jobs=2)
    assert len(list(work_through([job(c, tmp_path) for c in "abc"], script))) == 3
    assert max(script.at_once) == 2


def test_a_run_whose_worker_died_is_handed_over_again(tmp_path: Path) -> None:
    heard = Heard()
    script = Script(Died("killed"), {"A": 1})
    ((_, result),) = work_through([job("unlucky", tmp_path)], script, heard)
    assert result == {"A": 1}
    assert heard.sentences == ["unlucky: its worker died (killed), another one continues it"]


def test_who_always_dies_at_the_same_place_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(OvorError, match=r"died 3 times at the same epoch \(no memory\)"):
        list(work_through([job("hopeless", tmp_path)], Script(*[Died("no memory")] * 3)))


def test_who_comes_farther_each_time_may_die_often(tmp_path: Path) -> None:
    """As a long run does under a time limit."""

    class Limit(Script):
        def submit(self, run: Run, path: Path, stem: Path | None) -> None:
            super().submit(run, path, stem)
            path.mkdir(exist_ok=True)
            Folder(path).log(EpochEnds(task=0, epoch=len(self.at_once)))

    script = Limit(*[Died("time limit")] * 8, {"A": 1})
    assert len(list(work_through([job("long", tmp_path)], script))) == 1


def test_events_tell_how_far_a_run_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    tail = Tail(folder.events_file)
    assert not tail.read()
    folder.log(WorkerStarts("there", 1))
    folder.log(RunBegins(epochs=(4, 4)))
    assert tail.read()
    assert not tail.read()
    folder.log(TaskEnds(0, (50.0, 70.0)))
    with folder.events_file.open("a") as file:
        file.write('{"event": "ep')  # killed here
    assert tail.read()
    assert tail.standing == Standing(1, 0, (4, 4), 60.0, "there")
    folder.log(EpochEnds(1, 1))  # on a line of its own
    assert tail.read()
    assert tail.standing.place == (1, 2)
    cells = [next(iter(column.cells)) for column in standing_table([("x", tail.standing)]).columns]
    assert cells == ["x", "task 2/2", "epoch 3/4", "A_1 60.00", "there"]


def test_another_version_or_folder_is_said_and_nothing_written(
    tiny_run: Run, tmp_path: Path
) -> None:
    with shared(tmp_path / "out") as where:
        order = replace(where, patience=0).order(tiny_run, tmp_path / "out" / "run", None)
    error = carry_out({**order, "ovor": "0.0.1"}, "there")["error"]
    assert "0.0.1 where the grid was started: install the same" in str(error)
    error = carry_out(order, "there")["error"]  # the proof is gone, as on a machine of its own
    assert "On there: " in str(error)
    assert "choose an --out that all machines share" in str(error)
    assert not (tmp_path / "out" / "run").exists()


def test_a_killed_workers_lock_is_waited_for(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(OvorError, match="Another process"):
        Folder(tmp_path).wait_for_others(0.2)
    Thread(target=lambda: (time.sleep(0.5), holder.kill())).start()
    Folder(tmp_path).wait_for_others(30)
    holder.wait()


HOLD = """
import sys, time
from pathlib import Path
from ovor.experiments.folder import Folder
with Folder(Path(sys.argv[1])).alone():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_wrong_address_is_said_at_once() -> None:
    start = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PlaceError, match="timed out"):
            check_address(f"127.0.0.1:{port}")
    with pytest.raises(PlaceError, match="ray start --head"):
        check_address(f"127.0.0.1:{port}")  # nobody listens any more
    for nonsense in ("here", "host:port", "ray://127.0.0.1:10001", "127.0.0.1:99999999"):
        with pytest.raises(PlaceError):
            check_address(nonsense)
    assert time.monotonic() - start < 15


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--ray", "auto", "--slurm", "gpu"], "choose one"),
        (["--slurm-options", "time=10"], "needs --slurm"),
        (["--gpus-per-run", "0.5"], "needs --ray or --slurm"),
        (["--slurm", "gpu", "--gpus-per-run", "0.5"], "whole"),
    ],
)
def test_flags_that_do_not_go_together(
    flags: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from ovor.cli import main

    monkeypatch.setattr(sys, "argv", ["ovor", "grid", *flags])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "module"), [(["--ray", "auto"], "ray"), (["--slurm", "gpu"], "submitit")]
)
def test_what_is_not_installed_is_named(
    place: list[str],
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    tmp_path: Path,
) -> None:
    from ovor.cli import main

    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["ovor", "grid", *place, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 1
    error = capsys.readouterr().err
    assert f"pip install 'ovor[{place[0].removeprefix('--')}]'" in error
    assert "quickdraw" not in error  # other data would not help


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
        del result["seconds"]
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
def ray_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Ray's sockets need a short path; whatever it starts names the folder, and must be gone."""
    folder = Path(tempfile.mkdtemp(prefix="ovor-", dir="/tmp"))
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield folder
    end = time.monotonic() + 20
    while processes_of(folder) and time.monotonic() < end:
        time.sleep(0.2)
    left = processes_of(folder)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left


def processes_of(folder: Path) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command and int(file.parent.name) != os.getpid():
            found.append(int(file.parent.name))
    return found


@pytest.mark.slow
def test_ray_gives_the_same_though_a_worker_is_killed(
    rows: list[Row], expected: dict[str, Any], ray_folder: Path, tmp_path: Path
) -> None:
    heard = Heard()
    killer = Thread(target=kill_one, args=(tmp_path,), daemon=True)
    killer.start()
    place = on_ray("local", tmp_path, "cpu", None, jobs=2)
    assert len(list(grid.run_on(place, rows, [0, 1], tmp_path, heard))) == 6
    killer.join(timeout=1)
    assert written(tmp_path) == expected
    assert len(heard.sentences) == 1
    assert "WorkerCrashed" in heard.sentences[0]
    assert len(events(tmp_path, "worker")) == 7
    assert any(event["epoch"] for event in events(tmp_path, "begin"))  # it went on from there
    assert {at.node for _, at in heard.standings} - {""}
    # What is done is not done again, and needs no cluster.
    nowhere = on_ray("127.0.0.1:1", tmp_path, "cpu", None, jobs=2)
    assert len(list(grid.run_on(nowhere, rows, [0, 1], tmp_path))) == 6
    assert [path.name for path in tmp_path.glob(".[!s]*")] == []


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
        with pytest.raises(PlaceError, match="has the 4 CPU and 0 GPU of a run"):
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
        for end, arguments in enumerate([first, second]):
            where = f"--node-ip-address={link.addresses[end]}"
            subprocess.run([*link.inside(end), *ray, where, *arguments], check=True)
        subprocess.run(
            [*link.inside(0), sys.executable, "-c", IN_A_NAMESPACE],
            input=pickle.dumps((rows, tmp_path, f"{head}:6379")),
            check=True,
        )
    assert len({event["node"] for event in events(tmp_path, "worker")}) == 2
    assert written(tmp_path) == expected


@pytest.mark.slow
def test_ctrl_c_stops_ray_and_keeps_checkpoints(ray_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ovor", "grid", "--data", "quickdraw-dev", "--ray", "local"]
    flags = ["--tasks", "3", "--epochs", "3", "--seeds", "0", "--jobs", "1", "--out", str(tmp_path)]
    started = subprocess.Popen(
        [*command, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test in the background may ignore Ctrl-C, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic() + 200
    while not list(tmp_path.glob("*/checkpoint.safetensors")) and time.monotonic() < end:
        time.sleep(0.2)
    started.send_signal(signal.SIGINT)
    out, error = started.communicate(timeout=60)
    assert started.returncode == 130
    assert (out, error) == (
        "",
        "Stopped. The same command continues; --show prints what is there.\n",
    )
    assert list(tmp_path.glob("*/checkpoint.safetensors"))


def test_a_worker_does_what_this_process_would(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the worker goes where the grid was started
    run = replace(tiny_run, vor=None)
    grid.execute_one(run, tmp_path / "here" / "run", None)
    with shared(tmp_path / "there") as where:
        order = where.order(run, tmp_path / "there" / "run", None)
        answer = carry_out(json.loads(json.dumps(order)), "there")
        assert carry_out(order, "there") == answer  # once more: it is done
    assert written(tmp_path / "there") == written(tmp_path / "here")
    assert len(events(tmp_path / "there", "worker")) == 1


@pytest.mark.slow
def test_submitit_on_this_machine(tiny_run: Run, tmp_path: Path) -> None:
    row = [Row("vor", tiny_run)]
    here, there = tmp_path / "here", tmp_path / "there"
    list(grid.run_grid(row, [0], here, jobs=1))
    place = on_slurm({}, there, jobs=1, cluster="local")
    assert len(list(grid.run_on(place, row, [0], there))) == 1
    assert written(there) == written(here)
    assert not list(there.glob(".slurm*"))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sbatch, srun, sacct and scancel that run jobs on this machine."""
    for name in ("sbatch", "srun", "sacct", "scancel"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(FAKE_SLURM / name, path)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(jobs))
    return jobs


@pytest.mark.slow
def test_slurm_gives_the_same_though_a_job_is_killed(
    rows: list[Row], expected: dict[str, Any], slurm: Path, tmp_path: Path
) -> None:
    heard, out = Heard(), tmp_path / "out"
    killer = Thread(target=kill_one, args=(out,), daemon=True)
    killer.start()
    place = on_slurm({"partition": "night", "time": "1:00:00"}, out, jobs=2)
    assert len(list(grid.run_on(place, rows, [0, 1], out, heard))) == 6
    assert written(out) == expected
    assert len(heard.sentences) == 1
    scripts = [file.read_text() for file in slurm.glob("*.sh")]
    assert len(scripts) == 7
    assert all("--partition=night" in s and "--time=1:00:00" in s for s in scripts)
    assert all("--cpus-per-task=1" in s and "--mem=8G" in s for s in scripts)


def test_a_job_that_made_a_mistake_is_not_tried_again(tmp_path: Path) -> None:
    """But one that SLURM ended is."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

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
        with shared(tmp_path) as where:
            work({**where.order(tiny_run, tmp_path / "run", None), "ovor": "0"})
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_job_that_slurm_refuses_is_said(slurm: Path, tiny_run: Run, tmp_path: Path) -> None:
    (slurm.parent / "bin" / "sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition specified: dawn' >&2\nexit 1\n"
    )
    place = on_slurm({"partition": "dawn"}, tmp_path / "out", jobs=None)
    with pytest.raises(PlaceError, match="invalid partition specified: dawn"):
        list(grid.run_on(place, [Row("vor", tiny_run)], [0], tmp_path / "out"))


def test_ctrl_c_cancels_the_jobs(slurm: Path, tiny_run: Run, tmp_path: Path) -> None:
    sbatch = slurm.parent / "bin" / "sbatch"
    sbatch.write_text(
        sbatch.read_text().replace('setsid bash "$FAKE_SLURM/$id.sh"', "setsid sleep 60")
    )

    class Impatient(Heard):
        def running(self, standings: list[tuple[str, Standing]]) -> None:
            raise KeyboardInterrupt

    place = on_slurm({}, tmp_path / "out", jobs=None)
    with pytest.raises(KeyboardInterrupt):
        list(grid.run_on(place, [Row("vor", tiny_run)], [0], tmp_path / "out", Impatient()))
    (pid,) = (int(file.read_text()) for file in slurm.glob("*.pid"))
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < end
        time.sleep(0.1)
