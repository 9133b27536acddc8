"""The processes of one run, started in every way: one result, one sentence when one stops."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import NoReturn

import pytest
import torch
from torch import distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException

from command import ovor
from ovor.config import RUN, Run
from ovor.distributed import heartbeat as ends
from ovor.distributed.cluster import crew_of
from ovor.distributed.ranks import Ranks
from ovor.errors import OvorError
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from processes import (
    CLOSE,
    MODULE,
    SCRIPTS,
    Link,
    children,
    difference,
    end,
    free_port,
    start,
    together,
    two_machines,
    wait_for,
)

pytestmark = pytest.mark.xdist_group("ranks")  # two at a time would be slow


@pytest.fixture
def place(tmp_path: Path, tiny_run: Run) -> Path:
    (tmp_path / "run.json").write_bytes(RUN.dump_json(tiny_run))
    long = replace(tiny_run, epochs=2000, vor=None)
    (tmp_path / "long.json").write_bytes(RUN.dump_json(long))
    return tmp_path


@pytest.fixture
def port() -> str:
    return free_port()


def on_machine(
    place: Path, node: int, port: str, file: str, *flags: str, link: Link | None = None
) -> subprocess.Popen[str]:
    """One of two machines: both this one, or each an end of the link."""
    command = ("ovor", "run", "--from", file, "--out", "o", "--nodes", "2", *flags)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": str(node)}
    if link is None:
        return start(place, *command, **meeting)
    meeting |= {"MASTER_ADDR": link.addresses[0], "GLOO_SOCKET_IFNAME": link.cables[node]}
    return start(place, *command, by=[*link.inside(node), *MODULE], **meeting)


def test_when_a_process_is_killed_the_run_stops_with_a_sentence_and_others_continue(
    place: Path, tiny_run: Run
) -> None:
    """Three begin it, two finish it."""
    run = replace(tiny_run, epochs=30)
    (place / "run.json").write_bytes(RUN.dump_json(run))
    command = ("ovor", "run", "--from", "run.json", "--out", "o", "--devices", "3")
    process = start(place, *command)
    wait_for(place / "o/checkpoint.safetensors", process)
    _, middle, _ = children(process)
    killed = time.monotonic()
    os.kill(middle, signal.SIGKILL)
    code, said, errors = end(process)
    assert time.monotonic() - killed < 60
    assert (code, said) == (1, "")
    assert re.fullmatch(r"ovor: Process 2 of 3 died, .*--resume continues.*\n", errors)
    assert not (place / "o/result.json").exists()
    code, said, errors = end(
        start(place, "ovor", "run", "--resume", "--out", "o", "--devices", "2", "--json")
    )
    assert code == 0, errors
    alone = execute(run, Folder(place / "alone"))
    assert json.loads(said)["processes"] == 2
    assert json.loads(said)["accuracy"] == alone["accuracy"]
    assert difference(place / "o", place / "alone") <= CLOSE
    log = (place / "o/events.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["event"] == "begin" for line in log) == 2


def stop_or_hear(ranks: Ranks, folder: Path) -> None:
    """The last process is stopped, as if its machine were gone: nothing closes its connections."""

    def give_up(error: Exception) -> NoReturn:
        (folder / f"heard-{ranks.rank}").write_text(str(error))
        os._exit(1)

    with ends.speaking_of_the_end(ranks, give_up):
        dist.barrier()
        time.sleep(3 * ends.SILENCE)  # while all live, nobody gives up
        if ranks.rank == ranks.size - 1:
            (folder / "stopped").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.barrier()  # of no end


def test_who_gives_no_sign_of_life_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "BEAT", 0.1)
    monkeypatch.setattr(ends, "SILENCE", 1.0)
    heard = [tmp_path / f"heard-{rank}" for rank in (0, 1)]

    def remove() -> None:
        while not all(file.exists() for file in heard):
            time.sleep(0.1)
        os.kill(int((tmp_path / "stopped").read_text()), signal.SIGKILL)

    Thread(target=remove, daemon=True).start()
    with pytest.raises(ProcessExitedException) as error:
        together(3, tmp_path, stop_or_hear, tmp_path)
    assert error.value.exit_code == 1
    for file in heard:
        said = file.read_text()
        assert said.startswith("Process 3 of 3 gives no sign of life")
        assert "--resume" in said


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_when_a_machine_hangs_the_other_hears_of_it(place: Path, port: str, rank: int) -> None:
    nodes = [on_machine(place, node, port, "long.json") for node in (0, 1)]
    wait_for(place / "o/checkpoint.safetensors", nodes[0])
    (stopped,) = children(nodes[rank])
    moment = time.monotonic()
    os.kill(stopped, signal.SIGSTOP)
    try:
        code, said, errors = end(nodes[1 - rank])
        assert time.monotonic() - moment < 60
        assert (code, said) == (1, "")
        assert re.fullmatch(rf"ovor: Process {rank + 1} of 2 gives no sign of life.*\n", errors)
    finally:
        os.kill(stopped, signal.SIGKILL)
        assert end(nodes[rank])[0] == 1


@pytest.mark.slow
def test_when_the_cable_is_cut_both_machines_notice(place: Path) -> None:
    """Two network namespaces; no connection is closed."""
    with two_machines() as link:
        nodes = [on_machine(place, node, "29500", "long.json", link=link) for node in (0, 1)]
        wait_for(place / "o/checkpoint.safetensors", nodes[0])
        moment = time.monotonic()
        link.cut()
        for node, (code, said, errors) in enumerate([end(node) for node in nodes]):
            assert (code, said) == (1, "")
            other = 2 - node
            assert re.fullmatch(rf"ovor: Process {other} of 2 gives no sign of life.*\n", errors)
        assert time.monotonic() - moment < 60


def busy(ranks: Ranks, folder: Path, how: str) -> None:
    """The last process is busy for long when something happens to another."""

    def give_up(error: Exception) -> NoReturn:
        raise AssertionError

    try:
        with ends.speaking_of_the_end(ranks, give_up):
            dist.barrier()
            if ranks.rank == 2:
                time.sleep(5)
            if ranks.rank == 1 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if ranks.rank == 1:
                raise OvorError("no such image")
            ranks.broadcast(None)
    except (OvorError, ends.ElsewhereError) as error:
        (folder / f"{how}-{ranks.rank}").write_text(str(error))
    os._exit(0)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [("killed", "Process 2 of 3 died"), ("raised", "Process 2 of 3 has stopped: no such image")],
)
def test_who_is_busy_for_long_still_learns_what_happened(
    how: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "BEAT", 0.1)
    monkeypatch.setattr(ends, "QUIET", 1.0)
    with suppress(ProcessExitedException):
        together(3, tmp_path, busy, tmp_path, how)
    for rank in (0, 2):
        assert (tmp_path / f"{how}-{rank}").read_text().startswith(sentence)


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


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_processes_start_leaves_no_traceback(place: Path, sign: int) -> None:
    """As Ctrl-C goes to all of them; another signal to the parent alone."""
    command = ("run", "--from", "long.json", "--out", "o", "--devices", "2")
    process = start(place, *command, by=[str(SCRIPTS / "ovor")])
    limit = time.monotonic() + 60
    while len(started := list(children(process))) < 2:
        assert time.monotonic() < limit
        time.sleep(0.05)
    time.sleep(1.0)  # they load torch
    for pid in [*started, process.pid] if sign == signal.SIGINT else [process.pid]:
        os.kill(pid, sign)
    code, said, errors = end(process)
    assert (code, said) == (130, "")
    assert errors.endswith("Stopped before anything was done.\n")
    assert "Traceback" not in errors


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


def test_variables_that_mean_somebody_else_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    for run in (Run(), Run(devices=2)):
        assert crew_of(run).first
        assert not crew_of(run).started


def test_what_several_machines_need_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(nodes=2)
    monkeypatch.setenv("MASTER_ADDR", "no.such.machine.invalid")
    with pytest.raises(OvorError, match="needs MASTER_PORT and NODE_RANK in the environment"):
        crew_of(run)
    monkeypatch.setenv("MASTER_PORT", "29500")
    for rank in ("2", "-1", "x"):
        monkeypatch.setenv("NODE_RANK", rank)
        with pytest.raises(OvorError, match="must be from 0 to 1"):
            crew_of(run)
    monkeypatch.setenv("NODE_RANK", "1")
    with pytest.raises(OvorError, match=r"MASTER_ADDR is 'no\.such.* is not known here"):
        crew_of(run)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert not crew_of(run).first
    monkeypatch.setenv("MASTER_PORT", "abc")
    with pytest.raises(OvorError, match="must be a port"):
        crew_of(run)


def test_too_many_processes_are_refused(tmp_path: Path) -> None:
    said = ovor("run", "--devices", "1000", "--device", "cpu", cwd=tmp_path)
    assert said.returncode == 1
    assert "1000 processes on" in said.stderr
    said = ovor("run", "--devices", "2", "--device", "cuda", cwd=tmp_path)
    assert "There is no CUDA device here" in said.stderr or torch.cuda.is_available()


def test_torchrun_with_one_process_starts_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert crew_of(Run()).size == 1
    with pytest.raises(OvorError, match="--nproc-per-node"):
        crew_of(Run(devices=2))
    monkeypatch.setenv("WORLD_SIZE", "4")
    for run in (Run(), Run(devices=2, nodes=2)):
        assert crew_of(run).size == 4
    with pytest.raises(OvorError, match="start 4 in all, not 3"):
        crew_of(Run(devices=3))


@pytest.mark.slow
def test_another_command_on_the_second_machine_is_refused(place: Path, port: str) -> None:
    nodes = [on_machine(place, node, port, "run.json", "--seed", str(node)) for node in (0, 1)]
    for code, said, errors in [end(node) for node in nodes]:
        assert (code, said) == (1, "")
        assert "Process 2 was started with other settings than the first" in errors


@pytest.mark.slow
def test_what_stops_the_first_machine_before_it_begins_is_heard_by_the_other(
    place: Path, port: str
) -> None:
    (place / "o").mkdir()
    (place / "o/mine").touch()
    nodes = [on_machine(place, node, port, "run.json") for node in (0, 1)]
    first, second = (end(node) for node in nodes)
    assert first == (
        1,
        "",
        "ovor: o is not empty: add --resume to continue the run in it, or name another.\n",
    )
    assert second[:2] == (1, "")
    assert "Process 1 of 2 has stopped: o is not empty" in second[2]


TORCHRUN = ("torch.distributed.run", "--nproc-per-node", "2", "--master-port")


@pytest.fixture(scope="module")
def alone(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The run of run.json by one process."""
    folder = Folder(tmp_path_factory.mktemp("alone") / "o")
    execute(tiny_run, folder)
    return folder


def test_started_by_torchrun(place: Path, alone: Folder) -> None:
    """One folder, one result, one voice; and no flag is needed."""
    ovor = ("-m", "ovor", "run", "--from", "run.json", "--json")
    code, said, errors = end(start(place, *TORCHRUN, free_port(), *ovor, OMP_NUM_THREADS="1"))
    assert code == 0, errors
    result = json.loads(said)
    assert result["processes"] == 2
    assert result["accuracy"] == alone.result()["accuracy"]
    assert errors.count("task  1/3") == 1
    (folder,) = (place / "runs").iterdir()
    assert difference(folder, alone.path) <= CLOSE


@pytest.mark.slow
def test_when_torchrun_loses_a_process_the_others_say_so(place: Path) -> None:
    """torchrun adds words of its own."""
    ovor = ("-m", "ovor", "run", "--from", "long.json", "--out", "o")
    process = start(place, *TORCHRUN, free_port(), *ovor, OMP_NUM_THREADS="1")
    wait_for(place / "o/checkpoint.safetensors", process)
    _, last = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    moment = time.monotonic()
    os.kill(int(last), signal.SIGKILL)
    code, said, errors = end(process)
    assert time.monotonic() - moment < 60
    assert (code, said) == (1, "")
    assert errors.count("ovor: Process 2 of 2 died") == 1


def test_on_two_machines(place: Path, port: str, alone: Folder) -> None:
    """The second neither writes nor speaks."""
    nodes = [on_machine(place, node, port, "run.json", "--json") for node in (0, 1)]
    (code, said, errors), second = (end(node) for node in nodes)
    assert second == (0, "", "")
    assert code == 0, errors
    assert json.loads(said)["processes"] == 2
    assert difference(place / "o", alone.path) <= CLOSE


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_when_a_process_is_killed_both_machines_hear_of_it(
    place: Path, port: str, rank: int
) -> None:
    nodes = [on_machine(place, node, port, "long.json") for node in (0, 1)]
    wait_for(place / "o/checkpoint.safetensors", nodes[0])
    (killed,) = children(nodes[rank])
    moment = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    for code, said, errors in [end(node) for node in nodes]:
        assert (code, said) == (1, "")
        assert re.fullmatch(rf"ovor: Process {rank + 1} of 2 died, .*--resume.*\n", errors)
    assert time.monotonic() - moment < 60
