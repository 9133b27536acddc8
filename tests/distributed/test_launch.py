"""Commands that start the processes of a run: one result, and one sentence when one stops."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path

import pytest
import torch
from torch.multiprocessing.spawn import ProcessException, ProcessExitedException

from command import ovor
from ovor.config import RUN, Run
from ovor.distributed import launch
from ovor.distributed.cluster import find_cluster
from ovor.distributed.heartbeat import PeerStoppedError
from ovor.distributed.launch import root_cause
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
    two_machines,
    wait_for,
)

pytestmark = pytest.mark.xdist_group("ranks")  # two at a time would be slow

RUN_IT = ("ovor", "run", "--from", "run.json", "--out", "o")
RUN_LONG = ("ovor", "run", "--from", "long.json", "--out", "o")


@pytest.fixture
def place(tmp_path: Path, tiny_run: Run) -> Path:
    """A folder with run.json, and long.json that only a test ends."""
    (tmp_path / "run.json").write_bytes(RUN.dump_json(tiny_run))
    long = replace(tiny_run, epochs=2000, vor=None)
    (tmp_path / "long.json").write_bytes(RUN.dump_json(long))
    return tmp_path


@pytest.fixture(scope="module")
def alone(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """What run.json gives by one process."""
    folder = Folder(tmp_path_factory.mktemp("alone") / "o")
    execute(tiny_run, folder)
    return folder


def wait_for_checkpoint(place: Path, process: subprocess.Popen[str]) -> None:
    wait_for(place / "o/checkpoint.safetensors", process)


def on_two_machines(
    place: Path, *command: str, link: Link | None = None
) -> list[subprocess.Popen[str]]:
    """Start the command, which may name its {node}, on both ends of the link, or twice here."""
    port, started = free_port(), []
    for node in (0, 1):
        words = [word.format(node=node) for word in (*command, "--nodes", "2")]
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": str(node)}
        if link:
            variables["MASTER_ADDR"] = link.addresses[0]
            variables["GLOO_SOCKET_IFNAME"] = link.cables[node]
        by = [*link.inside(node), *MODULE] if link else MODULE
        started.append(start(place, *words, by=by, **variables))
    return started


def by_torchrun(place: Path, *command: str) -> subprocess.Popen[str]:
    torchrun = ("torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port())
    return start(place, *torchrun, "-m", *command, OMP_NUM_THREADS="1")


def test_when_a_process_is_killed_the_run_stops_with_a_sentence_and_fewer_continue(
    place: Path, tiny_run: Run
) -> None:
    """Three begin it, one finishes it."""
    run = replace(tiny_run, epochs=10)
    (place / "run.json").write_bytes(RUN.dump_json(run))
    process = start(place, *RUN_IT, "--devices", "3")
    wait_for_checkpoint(place, process)
    _, middle, _ = children(process)
    os.kill(middle, signal.SIGKILL)
    code, said, errors = end(process)
    assert (code, said) == (1, "")
    assert re.fullmatch(r"ovor: Process 2 of 3 died, .*--resume continues.*\n", errors)
    assert not (place / "o/result.json").exists()
    resumed = ovor("run", "--resume", "--out", "o", "--devices", "1", "--json", cwd=place)
    assert resumed.returncode == 0, resumed.stderr
    alone = execute(run, Folder(place / "alone"))
    result = json.loads(resumed.stdout)
    assert (result["processes"], result["accuracy"]) == (1, alone["accuracy"])
    assert difference(place / "o", place / "alone") <= CLOSE
    log = (place / "o/events.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["event"] == "begin" for line in log) == 2


def test_ctrl_c_stops_all_and_says_how_to_continue(place: Path) -> None:
    process = start(place, *RUN_LONG, "--devices", "2")
    wait_for_checkpoint(place, process)
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
    """Ctrl-C goes to all of them; another signal to the parent alone."""
    process = start(place, *RUN_LONG[1:], "--devices", "2", by=[str(SCRIPTS / "ovor")])
    limit = time.monotonic() + 240
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


@pytest.mark.slow
def test_an_image_that_one_process_cannot_read_stops_all(place: Path, tiny_run: Run) -> None:
    shutil.copytree(tiny_run.data.removeprefix("folder:"), place / "images")
    (place / "images/train/class0/3.png").write_bytes(b"no image")
    broken = replace(tiny_run, data=f"folder:{place / 'images'}")
    (place / "run.json").write_bytes(RUN.dump_json(broken))
    code, said, errors = end(start(place, *RUN_IT, "--devices", "2"))
    assert (code, said) == (1, "")
    assert errors.count("\n") == 1
    assert "class0/3.png" in errors


def exited(code: int) -> ProcessExitedException:
    return ProcessExitedException("exited", error_index=1, error_pid=7, exit_code=code)


NOTICED, OWN = PeerStoppedError("Process 1 of 4 has stopped: no image"), OvorError("no image")


@pytest.mark.parametrize(
    ("failures", "error", "sentence"),
    [
        ([NOTICED, OWN], exited(1), "no image"),
        ([NOTICED], exited(1), "Process 1 of 4 has stopped: no image"),
        ([OWN], exited(-signal.SIGKILL), "Process 4 of 4 died"),
        ([], exited(1), "Process 4 of 4 died"),
        ([], ProcessException("DistNetworkError: refused", 1, 7), "did not find each other"),
    ],
)
def test_of_all_failures_the_first_is_said(
    failures: list[Exception], error: ProcessException, sentence: str
) -> None:
    """As the second of two machines with two processes each would."""
    found = root_cause(failures, error, first=2, size=4)
    assert isinstance(found, OvorError)
    assert sentence in str(found)


def no_work(*_: object) -> None:
    raise AssertionError("nothing was chosen")


def test_other_processes_of_the_program_outlive_those_of_a_run(
    tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):  # the run sets them: undone afterwards
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    other = get_context("fork").Process(target=time.sleep, args=(100,))
    other.start()
    before = set(active_children())  # of other tests too
    run = replace(tiny_run, devices=2, device="cpu")
    with pytest.raises(OvorError, match="no such folder"):
        launch.start(find_cluster(run), run, no_work, OvorError("no such folder"))
    assert set(active_children()) == before
    other.join(1)  # a signal takes a moment
    assert other.is_alive()
    other.kill()
    other.join()


def test_too_many_processes_are_refused(tmp_path: Path) -> None:
    said = ovor("run", "--devices", "1000", "--device", "cpu", cwd=tmp_path)
    assert said.returncode == 1
    assert "1000 processes on" in said.stderr
    said = ovor("run", "--devices", "2", "--device", "cuda", cwd=tmp_path)
    assert "There is no CUDA device here" in said.stderr or torch.cuda.is_available()


@pytest.mark.slow
def test_started_by_torchrun(place: Path, alone: Folder) -> None:
    """One folder, one result, one voice; and no flag is needed."""
    code, said, errors = end(by_torchrun(place, *RUN_IT[:-2], "--json"))
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
    process = by_torchrun(place, *RUN_LONG)
    wait_for_checkpoint(place, process)
    _, last = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(last), signal.SIGKILL)
    code, said, errors = end(process)
    assert (code, said) == (1, "")
    assert errors.count("ovor: Process 2 of 2 died") == 1


@pytest.mark.slow
def test_on_two_machines(place: Path, alone: Folder) -> None:
    """The second neither writes nor speaks."""
    (code, said, errors), second = map(end, on_two_machines(place, *RUN_IT, "--json"))
    assert second == (0, "", "")
    assert code == 0, errors
    assert json.loads(said)["processes"] == 2
    assert difference(place / "o", alone.path) <= CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("sign", "sentence"),
    [(signal.SIGKILL, "died, .*--resume.*"), (signal.SIGSTOP, "gives no sign of life.*")],
)
def test_when_a_process_dies_or_hangs_the_other_machine_hears_of_it(
    place: Path, rank: int, sign: int, sentence: str
) -> None:
    nodes = on_two_machines(place, *RUN_LONG)
    wait_for_checkpoint(place, nodes[0])
    (chosen,) = children(nodes[rank])
    os.kill(chosen, sign)
    code, said, errors = end(nodes[1 - rank])
    if sign == signal.SIGSTOP:
        os.kill(chosen, signal.SIGKILL)
    own_code, _, own_errors = end(nodes[rank])
    assert (code, said, own_code) == (1, "", 1)
    assert re.fullmatch(f"ovor: Process {rank + 1} of 2 {sentence}\n", errors)
    assert errors == own_errors or sign == signal.SIGSTOP


@pytest.mark.slow
def test_when_the_cable_is_cut_both_machines_notice(place: Path) -> None:
    """Two network namespaces; no connection is closed."""
    with two_machines() as link:
        nodes = on_two_machines(place, *RUN_LONG, link=link)
        wait_for_checkpoint(place, nodes[0])
        link.cut()
        for node, (code, said, errors) in enumerate([*map(end, nodes)]):
            assert (code, said) == (1, "")
            other = 2 - node
            assert re.fullmatch(rf"ovor: Process {other} of 2 gives no sign of life.*\n", errors)


@pytest.mark.slow
def test_another_command_on_the_second_machine_is_refused(place: Path) -> None:
    nodes = on_two_machines(place, *RUN_IT, "--seed", "{node}")
    for code, said, errors in [*map(end, nodes)]:
        assert (code, said) == (1, "")
        assert "Process 2 was started with other settings than the first" in errors


@pytest.mark.slow
def test_what_stops_the_first_machine_before_it_begins_is_heard_by_the_other(place: Path) -> None:
    (place / "o").mkdir()
    (place / "o/mine").touch()
    sentence = "o is not empty: add --resume to continue the run in it, or name another.\n"
    first, second = map(end, on_two_machines(place, *RUN_IT))
    assert first == (1, "", f"ovor: {sentence}")
    assert second[:2] == (1, "")
    assert f"Process 1 of 2 has stopped: {sentence}" in second[2]
