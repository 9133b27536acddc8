"""How the ranks of a run learn that one of them has stopped, died or hangs.

They share the key-value store that connected them. A rank that stops writes the reason there, and
every rank writes heartbeats, so that a machine that vanishes or hangs, which closes no connection,
is noticed too. A thread does this, as the main one may be busy, or in an exchange without end.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
from typing import Any, NoReturn, cast

from torch import distributed as dist

from ovor.distributed.ranks import RankLostError, Ranks
from ovor.errors import OvorError

INTERVAL = 1.0  # seconds between two heartbeats of a rank
DEAD_AFTER = 5.0  # seconds without one, once a connection broke
LOST_AFTER = 30.0  # seconds without one, though no connection broke

Abort = Callable[[Exception], NoReturn]


class PeerStoppedError(Exception):
    """Another rank has stopped and written why."""


class Heartbeat:
    """This rank's heartbeats, and what it knows of the others by theirs."""

    def __init__(self, ranks: Ranks, abort: Abort) -> None:
        self.main_store = cast(Any, dist.distributed_c10d._get_default_store())
        self.store = self.main_store.clone()  # a connection of the thread's own
        self.ranks, self.abort = ranks, abort
        self.beats = [b""] * ranks.size
        self.changed = [time.monotonic()] * ranks.size  # when each rank's last beat was seen
        self.peer_stopped: PeerStoppedError | None = None
        self.over = Event()
        self.heard = Event()  # a reason was written, or the store is gone
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        number = 0
        while not self.over.wait(INTERVAL if number else 0):
            number += 1
            # A request to a store whose machine hangs would never return.
            hanging = Timer(LOST_AFTER, self.abort, [rank_lost(0, self.ranks.size)])
            hanging.start()
            try:
                self._beat(number)
            except RuntimeError:  # the store is gone; the main thread may notice, and say more
                self.heard.set()
                if not self.over.wait(2 * DEAD_AFTER):
                    self.abort(self.peer_stopped or rank_lost(0, self.ranks.size))
                return
            finally:
                hanging.cancel()
            if self.peer_stopped and not self.over.wait(LOST_AFTER):
                self.abort(self.peer_stopped)
            silent = self._silent(LOST_AFTER)
            if silent and not self.over.is_set():
                self.abort(rank_lost(silent[0], self.ranks.size))

    def _beat(self, number: int) -> None:
        """Write this rank's beat, and read the others' and the reason of one that stopped."""
        self.store.set(f"beat {self.ranks.rank}", str(number))
        found, now = self._beats(), time.monotonic()
        # After a pause of its own, as by Ctrl-Z, this rank has heard nobody: all count from now.
        paused = now - self.changed[self.ranks.rank] > LOST_AFTER / 2
        for rank, beat in enumerate(found):
            if paused or beat != self.beats[rank]:
                self.beats[rank], self.changed[rank] = beat, now
        if self.store.check(["reason"]):
            rank, reason = json.loads(self.store.get("reason"))
            if rank != self.ranks.rank:
                self.peer_stopped = PeerStoppedError(reason)
                self.store.add("readers", 1)
            self.heard.set()

    def _beats(self) -> list[bytes]:
        """Return every rank's last beat, of those that had none yet b"".

        To ask for one that was never written would wait for it, and a rank may die before.
        """
        names = [f"beat {rank}" for rank in range(self.ranks.size)]
        there = [
            name
            for name, beat in zip(names, self.beats, strict=True)
            if beat or self.store.check([name])
        ]
        found = dict(zip(there, self.store.multi_get(there), strict=True))
        return [found.get(name, b"") for name in names]

    def _silent(self, seconds: float) -> list[int]:
        """Return the other ranks without a beat for that long, the longest first.

        This one lives: on a busy machine its own beats may be late all the same.
        """
        now, own = time.monotonic(), self.ranks.rank
        last = {rank: moment for rank, moment in enumerate(self.changed) if rank != own}
        return sorted((rank for rank in last if now - last[rank] > seconds), key=last.__getitem__)

    def report(self, reason: str, dead: int = 0) -> bool:
        """Write why the run stops, and return False if another rank did before.

        Waits until the others that live have read it, as the store may go with this process.
        """
        try:
            if self.main_store.add("stopped", 1) > 1:
                return False
            self.main_store.set("reason", json.dumps([self.ranks.rank, reason]))
            if dist.get_backend() == "gloo":
                dist.destroy_process_group()  # closes the connections, which the others notice
            end, readers = time.monotonic() + DEAD_AFTER, self.ranks.size - 1 - dead
            while self.main_store.add("readers", 0) < readers and time.monotonic() < end:
                time.sleep(0.05)
        except RuntimeError:  # the store is gone
            pass
        return True

    def diagnose(self) -> Exception:
        """Return why an exchange failed: by the reason that was written, or by missing beats."""
        self.heard.wait(DEAD_AFTER + INTERVAL)
        if self.peer_stopped:
            return self.peer_stopped
        try:
            self.main_store.check(["reason"])
        except RuntimeError:  # rank 0 keeps the store, or torchrun does
            return rank_died(0, self.ranks.size)
        silent = self._silent(DEAD_AFTER)
        found = rank_died(silent[0], self.ranks.size) if silent else connection_lost()
        if not self.report(str(found), len(silent)):
            self.heard.wait(DEAD_AFTER)
        return self.peer_stopped or found


@contextmanager
def heartbeat(ranks: Ranks, abort: Abort) -> Iterator[None]:
    """Tell the other ranks what stops this one, and raise here what stopped another.

    `abort` must end this process at once, from any thread.
    """
    beating = Heartbeat(ranks, abort)
    try:
        yield
    except RankLostError as error:
        raise beating.diagnose() from error
    except BaseException as error:
        said = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else str(error)
        reason = f"Process {ranks.rank + 1} of {ranks.size} has stopped: {said}"
        if not beating.report(reason):
            raise PeerStoppedError(reason) from error
        raise
    finally:
        beating.over.set()


def rank_died(rank: int, size: int) -> OvorError:
    return OvorError(
        f"Process {rank + 1} of {size} died, perhaps for lack of memory: the same command with "
        "--resume continues, with any number of processes."
    )


def rank_lost(rank: int, size: int) -> OvorError:
    return OvorError(
        f"Process {rank + 1} of {size} gives no sign of life: look after its machine and the "
        "network; the same command with --resume continues, with any number of processes."
    )


def no_rendezvous() -> OvorError:
    return OvorError(
        "The processes of this run did not find each other: check that every machine runs the same "
        "command, and that MASTER_ADDR and MASTER_PORT lead to the first."
    )


def connection_lost() -> OvorError:
    return OvorError(
        "The processes of this run lost their connection: check the network; the same command "
        "with --resume continues."
    )
