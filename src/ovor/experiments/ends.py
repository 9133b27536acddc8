"""How the processes of a run learn of each other's end.

Whoever stops leaves word in the store that connected them all. Whoever finds a connection closed
looks there; where no word was left, the one that does not report either has died.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import distributed as dist
from torch._C._distributed_c10d import Store

from ovor.config import OvorError
from ovor.ranks import LostError, Ranks

MOMENT = 5.0  # seconds for the processes to hear of each other


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
        lost = silent()
    except RuntimeError:
        lost = [0]
    return died(lost[0], ranks.size) if lost else interrupted()


def patiently(over: Callable[[], bool]) -> None:
    end = time.monotonic() + MOMENT
    while not over() and time.monotonic() < end:
        time.sleep(0.05)


def died(rank: int, size: int) -> OvorError:
    return OvorError(
        f"Process {rank + 1} of {size} died, perhaps for lack of memory: the same command with "
        "--resume continues, with any number of processes."
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
