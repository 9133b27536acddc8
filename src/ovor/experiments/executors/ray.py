"""Runs as tasks of a Ray cluster.

Ray only places the runs: a run that died is handed over anew by the grid, which can say so.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ovor.config import Run
from ovor.experiments.executors.base import Died, Executor, Outcome, PlaceError
from ovor.experiments.executors.remote import Order, Shared, result_of, shared

# Nobody is told of the use; and Ray would say on stdout, where results go, that a worker died.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
START = "start one with `ray start --head`, or give --ray local"
OBJECTS = 100_000_000  # bytes for Ray's store of objects: ours are small dicts
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # RFC 9113, 3.4
SETTINGS = 4  # the type of the frame that must come first in return


class RayExecutor:
    def __init__(self, where: Shared, gpus: float, jobs: int | None) -> None:
        import ray

        def work(order: Order) -> dict[str, Any]:
            # An inner function goes to the worker by value: only here does it need ovor.
            import socket

            import ray

            from ovor.experiments.executors.remote import carry_out

            number = ray.get_runtime_context().get_node_id()[:6]
            return carry_out(order, f"{socket.gethostname()}/{number}")

        self.jobs, self.where, self.gpus = jobs, where, gpus
        self.work = ray.remote(max_retries=0)(work)
        self.running: dict[Any, Path] = {}
        self.fitting: set[int] = set()  # CPUs of a run that some machine has

    def submit(self, run: Run, path: Path, stem: Path | None) -> None:
        cpus = 1 + run.workers
        if cpus not in self.fitting:  # once: a machine may be gone for a while later
            check_size(cpus, self.gpus)
            self.fitting.add(cpus)
        task = self.work.options(num_cpus=cpus, num_gpus=self.gpus)
        self.running[task.remote(self.where.order(run, path, stem))] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        import ray

        tasks = list(self.running)
        ready, _ = ray.wait(tasks, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(tasks, num_returns=len(tasks), timeout=0)
        for task in ready:
            yield self.running.pop(task), self.outcome(task)

    def outcome(self, task: Any) -> Outcome:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return result_of(ray.get(task))
        except RayTaskError as error:
            if isinstance(error.cause, ModuleNotFoundError):
                raise PlaceError(
                    f"A worker of the Ray cluster has no module {error.cause.name}: install the "
                    "same ovor on all machines."
                ) from None
            raise error.cause from None
        except RayError as error:  # the worker, its machine or its answer is gone
            return Died(type(error).__name__.removesuffix("Error"))

    def stop(self) -> None:
        import ray

        for task in self.running:
            ray.cancel(task, force=True)
        ray.wait(list(self.running), num_returns=len(self.running), timeout=5)


@contextmanager
def on_ray(
    address: str, out: Path, device: str, gpus: float | None, jobs: int | None
) -> Iterator[Executor]:
    """`address` is local, auto or HOST:PORT; `gpus` for each run, by default one if it takes one.

    What runs when this ends early is stopped, and has its checkpoint.
    """
    connect(address, jobs)
    import ray

    try:
        if gpus is None:
            there = ray.cluster_resources().get("GPU", 0) > 0
            gpus = float(device == "cuda" or (device == "auto" and there))
        with shared(out) as where:
            executor = RayExecutor(where, gpus, jobs)
            try:
                yield executor
            except BaseException:
                executor.stop()
                raise
    finally:
        ray.shutdown()


def connect(address: str, jobs: int | None) -> None:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise PlaceError("Ray is not installed: pip install 'ovor[ray]'.") from None
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
    if address not in ("local", "auto"):
        check_address(address)
    new: dict[str, Any] = {
        "num_cpus": jobs,
        "include_dashboard": False,
        "object_store_memory": OBJECTS,
    }
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **(new if address == "local" else {}),
        )
    except (Exception, SystemExit) as error:
        if "AuthenticationError" in everything(error):
            raise PlaceError(
                f"The Ray cluster at {address} wants its token: set RAY_AUTH_MODE=token, and "
                "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as where it was started."
            ) from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PlaceError(f"No Ray cluster at {address} ({reason}): {START}.") from error


def everything(error: BaseException | None) -> str:
    """The names of an error and of what led to it."""
    names = ""
    while error:
        names += f"{type(error).__name__} {error} "
        error = error.__cause__ or error.__context__
    return names


def check_address(address: str) -> None:
    """In seconds; Ray itself tries for two minutes, and then ends the process."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise PlaceError(f"--ray takes local, auto or HOST:PORT of the head node, not {address}.")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as there:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            there.sendall(HELLO)
            answer = there.recv(9)
    except (OSError, OverflowError) as error:
        raise PlaceError(f"No Ray cluster answers at {address} ({error}): {START}.") from None
    if len(answer) < 4 or answer[3] != SETTINGS:
        raise PlaceError(f"What answers at {address} is not Ray: {START}.")


def check_size(cpus: int, gpus: float) -> None:
    """What fits on no machine would wait for ever."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
        raise PlaceError(
            f"No machine of the Ray cluster has the {cpus} CPU and {gpus:g} GPU of a run: choose "
            "fewer --workers, other --gpus-per-run, or --device cpu."
        )
