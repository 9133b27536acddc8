"""Every rank learns which other stopped, died or hangs, and why."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import NoReturn

import pytest
from torch import distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException

from ovor.distributed import heartbeat
from ovor.distributed.ranks import Ranks
from ovor.errors import OvorError
from processes import together

pytestmark = pytest.mark.xdist_group("ranks")  # two at a time would be slow


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of a test instead of a minute's; forked processes have them too."""
    monkeypatch.setattr(heartbeat, "INTERVAL", 0.1)
    monkeypatch.setattr(heartbeat, "DEAD_AFTER", 1.0)


def hang(ranks: Ranks, folder: Path) -> None:
    """Stop the last rank, as if its machine were gone: nothing closes its connections."""

    def abort(error: Exception) -> NoReturn:
        (folder / f"heard-{ranks.rank}").write_text(str(error))
        os._exit(1)

    with heartbeat.heartbeat(ranks, abort):
        dist.barrier()
        time.sleep(1.5 * heartbeat.LOST_AFTER)  # while all live, nobody gives up
        if ranks.rank == ranks.size - 1:
            (folder / "stopped").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.barrier()  # without end


def test_a_rank_that_hangs_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LOST_AFTER", 2.0)
    heard = [tmp_path / f"heard-{rank}" for rank in (0, 1)]

    def remove() -> None:
        while not all(file.exists() for file in heard):
            time.sleep(0.1)
        os.kill(int((tmp_path / "stopped").read_text()), signal.SIGKILL)

    Thread(target=remove, daemon=True).start()
    with pytest.raises(ProcessExitedException) as error:
        together(3, tmp_path, hang, tmp_path)
    assert error.value.exit_code == 1
    for file in heard:
        said = file.read_text()
        assert said.startswith("Process 3 of 3 gives no sign of life")
        assert "--resume" in said


def stop_while_another_is_busy(ranks: Ranks, folder: Path, how: str) -> None:
    """End the middle rank while the last one computes for longer than DEAD_AFTER.

    If it ends `early`, it has given no sign of life before.
    """

    def abort(error: Exception) -> NoReturn:
        raise AssertionError

    if ranks.rank == 1 and how == "early":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with heartbeat.heartbeat(ranks, abort):
            if how != "early":
                dist.barrier()
            if ranks.rank == 2:
                time.sleep(3 * heartbeat.DEAD_AFTER)
            if ranks.rank == 1 and how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if ranks.rank == 1:
                raise OvorError("no such image")
            ranks.broadcast(None)
    except (OvorError, heartbeat.PeerStoppedError) as error:
        (folder / f"{how}-{ranks.rank}").write_text(str(error))
    os._exit(0)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("killed", "Process 2 of 3 died"),
        ("early", "Process 2 of 3 died"),
        ("raised", "Process 2 of 3 has stopped: no such image"),
    ],
)
def test_a_busy_rank_still_learns_what_happened(how: str, sentence: str, tmp_path: Path) -> None:
    with suppress(ProcessExitedException):
        together(3, tmp_path, stop_while_another_is_busy, tmp_path, how)
    for rank in (0, 2):
        assert (tmp_path / f"{how}-{rank}").read_text().startswith(sentence)
