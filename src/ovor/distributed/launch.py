"""One run by several processes, on one machine or on many.

lightning-fabric starts them, or finds that torchrun or SLURM has, and connects them. The first
chooses the folder, writes to it and speaks; the others compute. When one stops, all stop, with one
sentence that says why; and the checkpoint serves any number of processes.
"""

import logging
import os
import pickle
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any, NoReturn

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import distributed as dist
from torch.multiprocessing.spawn import ProcessException, ProcessExitedException

from ovor.config import Run
from ovor.distributed.cluster import Crew
from ovor.distributed.heartbeat import (
    QUIET,
    ElsewhereError,
    GiveUp,
    died,
    speaking_of_the_end,
    unmet,
)
from ovor.distributed.ranks import Ranks
from ovor.errors import OvorError
from ovor.events import Listener
from ovor.experiments.folder import Folder
from ovor.experiments.runner import assist, execute

MEETING = timedelta(minutes=10)  # for all processes to be started
EXCHANGE = timedelta(hours=6)  # for a slow one to come to an exchange; lost ones are noticed before
WAITING = 10.0  # seconds until it is said that others are waited for
MOST_A_CORE = 4  # processes: a few more than cores do no harm
MET = "met"

Beginning = Callable[[], tuple[Run, Path]]
Listening = Callable[[Run], AbstractContextManager[Listener]]

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # or each process says hello


def join(
    crew: Crew, run: Run, begin: Beginning, listening: Listening, asked: Run | None = None
) -> dict[str, Any] | None:
    """What this process has to do, if it was started as one of them; the first has the result.

    `asked` is what its own command said, where that must be what the first one's did.
    """
    launch: Any = connected(crew, run, "popen").launch
    mine = partial(work, begin=begin, listening=listening, give_up=leave, asked=asked)
    try:
        with on_sigterm(partial(linger, os.getpid())):
            result: dict[str, Any] | None = launch(mine)
        return result
    except ElsewhereError:
        sys.exit(1)
    except dist.DistError as error:  # later ones are noticed as losses
        raise unmet() from error


def start(
    crew: Crew, run: Run, begin: Beginning, listen: Listener, asked: Run | None = None
) -> dict[str, Any] | None:
    """Start the processes of this machine and wait for them; the first machine has the result.

    `begin` is for the first process of all; `asked` as for `join`.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # children: no word of closed connections
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    launch: Any = connected(crew, run, "spawn").launch
    mail: SimpleQueue[Any] = get_context("spawn").SimpleQueue()
    failures: list[tuple[int, Exception]] = []
    # Not as arguments of its own, which fabric would search for modules.
    theirs = partial(child, begin=begin, mail=mail, asked=asked)
    ending = on_sigterm(signal.default_int_handler)  # as Ctrl-C does
    try:
        with ending, waiting(crew) as met, reading(mail, listen, failures, met):
            result: dict[str, Any] | None = launch(theirs)
    except ProcessException as error:
        if getattr(error, "exit_code", 0) == -signal.SIGINT:
            raise KeyboardInterrupt from None
        first = crew.environment.node_rank() * crew.devices if crew.nodes > 1 else 0
        raise cause(failures, error, first, crew.size) from error
    finally:
        for process in active_children():  # after Ctrl-C; what they did has its checkpoint
            process.terminate()
    for _, failure in failures:
        raise failure
    return result


@contextmanager
def on_sigterm(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def waiting(crew: Crew) -> Iterator[Event]:
    """Say so if other machines are waited for, until the event is set."""
    met = Event()

    def say() -> None:
        if not met.is_set():
            place = f"{crew.environment.main_address}:{crew.environment.main_port}"
            print(f"Waiting for {crew.nodes} machines to meet at {place} ...", file=sys.stderr)

    timer = Timer(WAITING, say)
    timer.daemon = True
    if crew.nodes > 1:
        timer.start()
    try:
        yield met
    finally:
        timer.cancel()


def connected(crew: Crew, run: Run, start_method: Any) -> Fabric:
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = auto if run.device == "auto" else run.device
    if accelerator == "mps":
        raise OvorError("An Apple GPU works alone: leave out --devices and --nodes.")
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise OvorError("There is no CUDA device here: use --device cpu or auto.")
    if accelerator == "cuda" and crew.devices > torch.cuda.device_count():
        raise OvorError(
            f"There are {torch.cuda.device_count()} GPUs here, not {crew.devices}: give that "
            "number as --devices, or use --device cpu."
        )
    cores = os.cpu_count() or 1
    if accelerator == "cpu" and crew.devices > MOST_A_CORE * cores:
        raise OvorError(
            f"{crew.devices} processes on {cores} cores would only wait for each other: give "
            f"--devices {cores}, or fewer."
        )
    strategy = DDPStrategy(
        cluster_environment=crew.environment, start_method=start_method, timeout=MEETING
    )
    return Fabric(
        accelerator=accelerator, devices=crew.devices, num_nodes=crew.nodes, strategy=strategy
    )


def given(run: Run, path: Path) -> tuple[Run, Path]:
    """A beginning: what was chosen before the processes were started."""
    return run, path


def refused(error: Exception) -> tuple[Run, Path]:
    """A beginning that is none; so the processes of other machines hear why."""
    raise error


def linger(own: int, *_: Any) -> None:
    """torchrun ends all processes at once when it misses one: first find out which, and say so."""
    if os.getpid() != own:  # a child that loads images
        os._exit(128 + signal.SIGTERM)
    last = Timer(2 * QUIET, os._exit, [128 + signal.SIGTERM])
    last.daemon = True
    last.start()


def leave(error: Exception) -> NoReturn:
    """At once, from any thread."""
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # which progress had hidden
    print(f"{cursor}ovor: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def child(
    fabric: Fabric, begin: Beginning, mail: "SimpleQueue[Any]", asked: Run | None
) -> dict[str, Any] | None:
    # At once, also from within a collective: after Ctrl-C, and when the parent is gone.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    mail.put(MET)

    def give_up(error: Exception) -> NoReturn:
        mail.put((fabric.global_rank, error))
        os._exit(1)

    try:
        return work(fabric, begin, lambda run: nullcontext(mail.put), give_up, asked)
    except Exception as error:
        mail.put((fabric.global_rank, portable(error)))
        raise


def work(
    fabric: Fabric, begin: Beginning, listening: Listening, give_up: GiveUp, asked: Run | None
) -> dict[str, Any] | None:
    """What each process does."""
    ranks = Ranks(fabric.global_rank, fabric.world_size)
    result = None
    dist.distributed_c10d._set_pg_timeout(EXCHANGE)
    with speaking_of_the_end(ranks, give_up):
        run, path = ranks.broadcast(begin() if ranks.rank == 0 else (Run(), Path()))
        if asked and asked.essence != run.essence:
            raise OvorError(
                f"Process {ranks.rank + 1} was started with other settings than the first: give "
                "every machine the same command."
            )
        if ranks.rank == 0:
            with listening(run) as listen:
                result = execute(run, Folder(path), listen, ranks=ranks, device=fabric.device)
        else:
            assist(run, Folder(path), ranks, fabric.device)
        ranks.broadcast(None)  # nobody leaves while another may still wait for an answer
    dist.destroy_process_group()
    return result


def cause(
    failures: list[tuple[int, Exception]], error: ProcessException, first: int, size: int
) -> Exception:
    """Of all that was heard, what came first: a process's own failure, before those of others that
    noticed it."""
    own = [failure for _, failure in failures if not isinstance(failure, ElsewhereError)]
    if isinstance(error, ProcessExitedException) and error.exit_code < 0:  # by a signal
        return died(first + error.error_index, size)
    if own:
        return own[0]
    if failures:
        return OvorError(str(failures[0][1]))
    if isinstance(error, ProcessExitedException):
        return died(first + error.error_index, size)
    if re.search(r"Dist(Store|Network|Backend)Error", str(error)):
        return unmet()
    return error


@contextmanager
def reading(
    mail: "SimpleQueue[Any]",
    listen: Listener,
    failures: list[tuple[int, Exception]],
    met: Event,
) -> Iterator[None]:
    """Events go to the listener, failures to the list."""
    over = Event()

    def read() -> None:
        while not (over.is_set() and mail.empty()):
            if mail.empty():
                time.sleep(0.02)
            elif (message := mail.get()) == MET:
                met.set()
            elif isinstance(message, tuple):
                failures.append(message)
            elif not failures:
                try:
                    listen(message)
                except Exception as error:  # go on reading, or the sender would wait for ever
                    failures.append((0, error))

    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(QUIET)  # a killed process may have left half a message


def portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
