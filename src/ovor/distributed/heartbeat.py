"""How the processes of a run learn of each other's end.

They meet in the store that connected them all. Whoever stops leaves word there. Everybody gives
signs of life there, so that a machine that vanishes or hangs, and so closes no connection, is
noticed too. A thread does this, because the main one may be busy, or in an exchange without end.
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

BEAT = 1.0  # seconds between two signs of life of a process
QUIET = 5.0  # seconds without one: when a connection broke, the process that it led to is dead
SILENCE = 30.0  # seconds without one: it is lost though no connection broke

GiveUp = Callable[[Exception], NoReturn]


class ElsewhereError(Exception):
    """Another process has stopped, and has said why."""


class Others:
    """What is heard of the other processes."""

    def __init__(self, ranks: Ranks, give_up: GiveUp) -> None:
        # The first process keeps the store, or torchrun does; this connection is the thread's own.
        self.shared = cast(Any, dist.distributed_c10d._get_default_store())
        self.store = self.shared.clone()
        self.ranks, self.give_up, self.over = ranks, give_up, Event()
        self.signs = [b""] * ranks.size
        self.since = [time.monotonic()] * ranks.size  # when each sign was new
        self.heard = Event()
        self.word: ElsewhereError | None = None
        self.thread = Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        number = 0
        while not self.over.wait(BEAT if number else 0):
            number += 1
            # A store that hangs is waited for without end.
            hanging = Timer(SILENCE, self.give_up, [lost(0, self.ranks.size)])
            hanging.start()
            try:
                self._exchange(number)
            except RuntimeError:  # the store is gone; the main thread may notice, and say more
                self.heard.set()
                if not self.over.wait(2 * QUIET):
                    self.give_up(self.word or lost(0, self.ranks.size))
                return
            finally:
                hanging.cancel()
            if self.word and not self.over.wait(SILENCE):
                self.give_up(self.word)
            silent = self.silent(SILENCE)
            if silent and not self.over.is_set():
                self.give_up(lost(silent[0], self.ranks.size))

    def _exchange(self, number: int) -> None:
        names = [f"sign {rank}" for rank in range(self.ranks.size)]
        self.store.set(names[self.ranks.rank], str(number))
        found, now = self.store.multi_get(names), time.monotonic()
        # After a pause of its own, as by Ctrl-Z, a process has heard nobody, and all begin anew.
        paused = now - self.since[self.ranks.rank] > SILENCE / 2
        for rank, sign in enumerate(found):
            if paused or sign != self.signs[rank]:
                self.signs[rank], self.since[rank] = sign, now
        if self.store.check(["why"]):
            rank, why = json.loads(self.store.get("why"))
            if rank != self.ranks.rank:
                self.word = ElsewhereError(why)
                self.store.add("read", 1)
            self.heard.set()

    def silent(self, seconds: float) -> list[int]:
        """Who gave no sign for so long, the longest first."""
        now = time.monotonic()
        silent = [rank for rank, since in enumerate(self.since) if now - since > seconds]
        return sorted(silent, key=lambda rank: self.since[rank])

    def leave_word(self, why: str, dead: int = 0) -> bool:
        """Whether this is the first to say why the run stops; it stays until the living have read,
        as the store may go with it."""
        try:
            if self.shared.add("stopped", 1) > 1:
                return False
            self.shared.set("why", json.dumps([self.ranks.rank, why]))
            if dist.get_backend() == "gloo":
                dist.destroy_process_group()  # closes the connections, which the others notice
            end, readers = time.monotonic() + QUIET, self.ranks.size - 1 - dead
            while self.shared.add("read", 0) < readers and time.monotonic() < end:
                time.sleep(0.05)
        except RuntimeError:  # the store is gone
            pass
        return True

    def what_happened(self) -> Exception:
        """To a process that no longer answers: it left word, or gives no signs of life."""
        self.heard.wait(QUIET + BEAT)
        if self.word:
            return self.word
        try:
            self.shared.check(["why"])
        except RuntimeError:
            return died(0, self.ranks.size)
        silent = self.silent(QUIET)
        found = died(silent[0], self.ranks.size) if silent else interrupted()
        if not self.leave_word(str(found), len(silent)):
            self.heard.wait(QUIET)
        return self.word or found


@contextmanager
def speaking_of_the_end(ranks: Ranks, give_up: GiveUp) -> Iterator[None]:
    """Leave word of what stopped this process; and find out what stopped another."""
    others = Others(ranks, give_up)
    try:
        yield
    except RankLostError as error:
        raise others.what_happened() from error
    except BaseException as error:
        said = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else str(error)
        why = f"Process {ranks.rank + 1} of {ranks.size} has stopped: {said}"
        if not others.leave_word(why):
            raise ElsewhereError(why) from error
        raise
    finally:
        others.over.set()


def died(rank: int, size: int) -> OvorError:
    return OvorError(
        f"Process {rank + 1} of {size} died, perhaps for lack of memory: the same command with "
        "--resume continues, with any number of processes."
    )


def lost(rank: int, size: int) -> OvorError:
    return OvorError(
        f"Process {rank + 1} of {size} gives no sign of life: look after its machine and the "
        "network; the same command with --resume continues, with any number of processes."
    )


def unmet() -> OvorError:
    return OvorError(
        "The processes of this run did not find each other: check that every machine runs the same "
        "command, and that MASTER_ADDR and MASTER_PORT lead to the first."
    )


def interrupted() -> OvorError:
    return OvorError(
        "The processes of this run lost their connection: check the network; the same command "
        "with --resume continues."
    )
