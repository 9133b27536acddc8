"""Start the processes of a run, on one machine or on many, and let each do its part.

lightning-fabric starts them, or finds that torchrun or SLURM has, and connects them. Rank 0 chooses
run and folder, and alone is listened to. When one stops, all stop, with one sentence that says why.
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
from math import inf
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Any, NoReturn

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import distributed as dist
from torch.multiprocessing.spawn import ProcessException, ProcessExitedException

from ovor.children import Children
from ovor.config import Run
from ovor.distributed.cluster import Cluster
from ovor.distributed.heartbeat import (
    DEAD_AFTER,
    Abort,
    PeerStoppedError,
    heartbeat,
    no_rendezvous,
    rank_died,
)
from ovor.distributed.ranks import Ranks
from ovor.errors import OvorError
from ovor.events import Listener, silent
from ovor.terminal.guard import drawing

START_TIMEOUT = timedelta(minutes=10)  # for all processes to be started
EXCHANGE_TIMEOUT = timedelta(hours=6)  # for a slow one; heartbeats notice a lost one long before
PATIENCE = 10.0  # seconds until a line says that other machines are waited for
MAX_PROCESSES_PER_CORE = 4  # a few more than cores do no harm
CONNECTED = "connected"

Choice = tuple[Run, Path]  # the run, and its result folder
Result = dict[str, Any] | None
Work = Callable[[Ranks, torch.device, Run, Path, Listener], Result]  # one rank's part in a run
Listening = Callable[[Run], AbstractContextManager[Listener]]

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # or each process says hello


def join(
    cluster: Cluster, run: Run, work: Work, choose: Callable[[], Choice], listening: Listening
) -> Result:
    """Do the part of this process, which was started as one of them; rank 0 has the result.

    Rank 0 calls `choose` for the run and its folder, and listens by `listening`.
    """
    launch: Any = fabric_for(cluster, run, "popen").launch
    part = partial(do_part, work=work, choose=choose, listening=listening, abort=print_and_exit)
    try:
        with on_sigterm(partial(exit_later, os.getpid())):
            result: Result = launch(part)
        return result
    except PeerStoppedError:  # that rank says why
        sys.exit(1)
    except dist.DistError as error:  # while connecting; later ones become RankLostError
        raise no_rendezvous() from error


def start(
    cluster: Cluster,
    run: Run,
    work: Work,
    chosen: Choice | OvorError | None,
    listen: Listener = silent,
) -> Result:
    """Start the processes of this machine and wait for them; the machine of rank 0 has the result.

    `chosen` is what that machine chose, or why it could not, which then stops all machines; on the
    others it is None. `work` must be picklable.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # children: no word of closed connections
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)
    launch: Any = fabric_for(cluster, run, "spawn").launch
    mail: SimpleQueue[Any] = get_context("spawn").SimpleQueue()
    failures: list[Exception] = []
    ranks = Children()
    # In a partial: fabric would search arguments of its own for modules.
    part = partial(do_part_in_child, work=work, chosen=chosen, mail=mail)
    try:
        # SIGTERM ends it as Ctrl-C does.
        with on_sigterm(signal.default_int_handler), reading(mail, listen, failures, cluster):
            result: Result = launch(part)
    except ProcessException as error:
        if getattr(error, "exit_code", 0) == -signal.SIGINT:
            raise KeyboardInterrupt from None
        first = cluster.environment.node_rank() * cluster.devices if cluster.nodes > 1 else 0
        raise root_cause(failures, error, first, cluster.size) from error
    finally:
        ranks.terminate()  # after Ctrl-C; what they did has its checkpoint
    for failure in failures:
        raise failure
    return result


@contextmanager
def on_sigterm(handler: Any) -> Iterator[None]:
    """Call the handler at SIGTERM, inside this context."""
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def fabric_for(cluster: Cluster, run: Run, start_method: Any) -> Fabric:
    """Return what will connect the processes; refuse devices that this machine does not have."""
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = auto if run.device == "auto" else run.device
    if accelerator == "mps":
        raise OvorError("An Apple GPU works alone: leave out --devices and --nodes.")
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise OvorError("There is no CUDA device here: use --device cpu or auto.")
    if accelerator == "cuda" and cluster.devices > torch.cuda.device_count():
        raise OvorError(
            f"There are {torch.cuda.device_count()} GPUs here, not {cluster.devices}: give that "
            "number as --devices, or use --device cpu."
        )
    cores = os.cpu_count() or 1
    if accelerator == "cpu" and cluster.devices > MAX_PROCESSES_PER_CORE * cores:
        raise OvorError(
            f"{cluster.devices} processes on {cores} cores would only wait for each other: give "
            f"--devices {cores}, or fewer."
        )
    strategy = DDPStrategy(
        cluster_environment=cluster.environment, start_method=start_method, timeout=START_TIMEOUT
    )
    return Fabric(
        accelerator=accelerator, devices=cluster.devices, num_nodes=cluster.nodes, strategy=strategy
    )


def exit_later(own: int, *_: Any) -> None:
    """Handle SIGTERM: torchrun ends all when it misses one; first find out which, and say so."""
    if os.getpid() != own:  # a child that loads images
        os._exit(128 + signal.SIGTERM)
    last = Timer(2 * DEAD_AFTER, os._exit, [128 + signal.SIGTERM])
    last.daemon = True
    last.start()


def print_and_exit(error: Exception) -> NoReturn:
    """End this process at once, from any thread, with a sentence."""
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # which progress had hidden
    with drawing():
        print(cursor, end="", file=sys.stderr)
    print(f"ovor: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def do_part_in_child(
    fabric: Fabric, work: Work, chosen: Choice | OvorError | None, mail: "SimpleQueue[Any]"
) -> Result:
    """Do this rank's part in a process that `start` has started; events and errors go by mail."""
    # Ctrl-C, and the end of the parent, must work from within an exchange too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    mail.put(CONNECTED)

    def choose() -> Choice:
        if isinstance(chosen, OvorError):
            raise chosen
        assert chosen is not None  # rank 0 is on the machine that chose
        return chosen

    def abort(error: Exception) -> NoReturn:
        mail.put(error)
        os._exit(1)

    try:
        return do_part(fabric, work, choose, lambda run: nullcontext(mail.put), abort)
    except Exception as error:
        mail.put(picklable(error))
        raise


def do_part(
    fabric: Fabric, work: Work, choose: Callable[[], Choice], listening: Listening, abort: Abort
) -> Result:
    """Take rank 0's choice and do this rank's part in it; return what `work` does."""
    ranks = Ranks(fabric.global_rank, fabric.world_size)
    dist.distributed_c10d._set_pg_timeout(EXCHANGE_TIMEOUT)
    with heartbeat(ranks, abort):
        run, path = ranks.broadcast(choose() if ranks.rank == 0 else (Run(), Path()))
        with listening(run) if ranks.rank == 0 else nullcontext(silent) as listen:
            result = work(ranks, fabric.device, run, path, listen)
        ranks.broadcast(None)  # nobody leaves while another may still wait for an exchange
    dist.destroy_process_group()
    return result


def root_cause(
    failures: list[Exception], error: ProcessException, first: int, size: int
) -> Exception:
    """Return the failure that led to the others: a rank's own, before those that noticed it.

    `first` is the rank of this machine's first process.
    """
    own = [failure for failure in failures if not isinstance(failure, PeerStoppedError)]
    if isinstance(error, ProcessExitedException) and error.exit_code < 0:  # by a signal
        return rank_died(first + error.error_index, size)
    if own:
        return own[0]
    if failures:
        return OvorError(str(failures[0]))
    if isinstance(error, ProcessExitedException):
        return rank_died(first + error.error_index, size)
    if re.search(r"Dist(Store|Network|Backend)Error", str(error)):
        return no_rendezvous()
    return error


@contextmanager
def reading(
    mail: "SimpleQueue[Any]", listen: Listener, failures: list[Exception], cluster: Cluster
) -> Iterator[None]:
    """Pass the children's events to the listener, and append their errors to `failures`.

    Print a line if other machines are waited for.
    """
    over = Event()

    def read() -> None:
        say_at = time.monotonic() + PATIENCE if cluster.nodes > 1 else inf
        while not (over.is_set() and mail.empty()):
            if time.monotonic() > say_at:
                place = f"{cluster.environment.main_address}:{cluster.environment.main_port}"
                print(
                    f"Waiting for {cluster.nodes} machines to meet at {place} ...", file=sys.stderr
                )
                say_at = inf
            if mail.empty():
                time.sleep(0.02)
            elif isinstance(message := mail.get(), Exception):
                failures.append(message)
            elif message == CONNECTED:
                say_at = inf
            elif not failures:
                try:
                    listen(message)
                except Exception as error:  # go on reading, or the sender would wait for ever
                    failures.append(error)

    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(DEAD_AFTER)  # a killed process may have left half a message


def picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
