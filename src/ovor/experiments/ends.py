"""How the processes of a run learn of each other's end.

Whoever stops leaves word in the store that connected them all. Whoever finds a connection closed
looks there; where no word was left, the one that does not report either has died. A machine that
vanishes closes no connection; that nothing is heard of it any more tells.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer
from typing import Any, NoReturn

from torch import distributed as dist
from torch._C._distributed_c10d import Store

from ovor.config import OvorError
from ovor.ranks import LostError, Ranks

MOMENT = 5.0  # seconds for the processes to hear of each other
BEAT = 3.0  # seconds between two signs of life of a process
SILENCE = 30.0  # seconds without one after which it counts as lost

GiveUp = Callable[[OvorError], NoReturn]


class ElsewhereError(Exception):
    """Another process has stopped, and has said why."""


@contextmanager
def speaking_of_the_end(ranks: Ranks) -> Iterator[None]:
    """Leave word of what stopped this process; and find out what stopped another."""
    # The first process keeps the store, or torchrun does.
    store = dist.distributed_c10d._get_default_store()
    try:
        yield
    except LostError as error:
        raise what_happened(store, ranks) from error
    except BaseException as error:
        said = "" if isinstance(error, KeyboardInterrupt) else str(error)
        if not leave_word(store, ranks, said):
            raise ElsewhereError(said) from error
        raise


@contextmanager
def hearing_all(ranks: Ranks, give_up: GiveUp) -> Iterator[None]:
    """Give signs of life, and give up when another process gives none.

    In a thread of its own: nothing gets the main one out of an exchange that does not end.
    """
    shared: Any = dist.distributed_c10d._get_default_store()
    store = shared.clone()  # with a connection of its own
    over = Event()
    Thread(target=_hear, args=(store, ranks, give_up, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _hear(store: Store, ranks: Ranks, give_up: GiveUp, over: Event) -> None:
    names = [f"sign {rank}" for rank in range(ranks.size)]
    last = [(b"", time.monotonic())] * ranks.size  # sign of each process, and since when
    first = lost(0, ranks.size)  # which keeps the store
    for number in itertools.count():
        hanging = Timer(SILENCE, give_up, [first])  # a store that hangs is waited for without end
        hanging.start()
        try:
            store.set(names[ranks.rank], str(number))
            signs = store.multi_get(names)
        except RuntimeError:
            if not over.wait(2 * MOMENT):  # or the main thread has noticed, and says it better
                give_up(first)
            return
        finally:
            hanging.cancel()
        now = time.monotonic()
        last = [
            old if old[0] == sign else (sign, now) for old, sign in zip(last, signs, strict=True)
        ]
        silent = [rank for rank, (_, since) in enumerate(last) if now - since > SILENCE]
        if over.wait(BEAT):
            return
        if silent:
            give_up(lost(silent[0], ranks.size))


def leave_word(store: Store, ranks: Ranks, said: str) -> bool:
    """Whether this is the first process to stop; it waits a moment for the others to read."""
    try:
        if store.add("stopped", 1) > 1:
            store.add("read", 1)
            return False
        store.set("why", json.dumps([ranks.rank, said]))
        if dist.get_backend() == "gloo":
            dist.destroy_process_group()  # closes the connections, which the others notice
            patiently(lambda: int(store.add("read", 0)) >= ranks.size - 1)
    except RuntimeError:  # the store is gone
        pass
    return True


def what_happened(store: Store, ranks: Ranks) -> Exception:
    """To a process that no longer answers: it left word, or does not even say that it lives."""

    def silent() -> list[int]:
        return [rank for rank in range(ranks.size) if not store.check([f"alive {rank}"])]

    try:
        store.set(f"alive {ranks.rank}", "")
        patiently(lambda: store.check(["why"]) or len(silent()) < 2)
        if store.check(["why"]):
            rank, said = json.loads(store.get("why"))
            store.add("read", 1)
            return ElsewhereError(f"Process {rank + 1} of {ranks.size} has stopped: {said}")
        gone = silent()
    except RuntimeError:
        gone = [0]
    return died(gone[0], ranks.size) if gone else interrupted()


def patiently(over: Callable[[], bool]) -> None:
    end = time.monotonic() + MOMENT
    while not over() and time.monotonic() < end:
        time.sleep(0.05)


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
