"""Execute the runs of a grid as tasks of a Ray cluster.

Ray only places the runs: one that died is submitted again by the grid, which can say so.
"""

import logging
import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors import remote
from ovor.experiments.executors.base import Died, Executor, Outcome

# No usage statistics; and Ray would say on stdout, where results go, that a worker died.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
# Ray would try for two minutes to reach a cluster, and then end the process: seconds, and attempts.
PATIENCE = {
    "RAY_gcs_rpc_server_connect_timeout_s": "1",
    "RAY_py_gcs_connect_timeout_s": "4",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
}
START = "start one with `ray start --head`, or give --ray local"
OBJECT_STORE = 100_000_000  # bytes; what a grid sends are small dicts


class RayExecutor:
    def __init__(self, shared: remote.SharedFolder, gpus: float, jobs: int | None) -> None:
        import ray

        def work(request: remote.Request) -> remote.Response:
            # An inner function goes to the worker by value: only here does it need ovor.
            import socket

            import ray

            from ovor.experiments.executors.remote import serve

            number = ray.get_runtime_context().get_node_id()[:6]
            return serve(request, f"{socket.gethostname()}/{number}")

        self.jobs, self.shared, self.gpus = jobs, shared, gpus
        self.work = ray.remote(max_retries=0)(work)
        self.running: dict[Any, Path] = {}
        self.fitting: set[int] = set()  # numbers of CPUs that some machine has

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        cpus = 1 + run.workers
        if cpus not in self.fitting:  # checked once: that machine may be gone for a while later
            check_size(cpus, self.gpus)
            self.fitting.add(cpus)
        task = self.work.options(num_cpus=cpus, num_gpus=self.gpus)
        self.running[task.remote(self.shared.request(run, path, vor_cache))] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        import ray

        ready, _ = ray.wait(list(self.running), num_returns=1, timeout=seconds)
        for task in ready:
            yield self.running.pop(task), self.outcome(task)

    def outcome(self, task: Any) -> Outcome:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return remote.result_of(ray.get(task))
        except RayTaskError as error:
            if isinstance(error.cause, ImportError):
                raise OvorError(
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
    """Connect to the cluster at `address` (local, auto or HOST:PORT), or start a local one.

    Each run takes `gpus`: by default one, if `device` asks for it. Leaving by an error cancels
    what still runs, which keeps its checkpoint.
    """
    connect(address, jobs)
    import ray

    try:
        if gpus is None:
            there = ray.cluster_resources().get("GPU", 0) > 0
            gpus = float(device == "cuda" or (device == "auto" and there))
        with remote.sharing(out) as shared:
            executor = RayExecutor(shared, gpus, jobs)
            try:
                yield executor
            except BaseException:
                executor.stop()
                raise
    finally:
        ray.shutdown()


def connect(address: str, jobs: int | None) -> None:
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "auto")
    for name, value in (QUIET if address == "local" else QUIET | PATIENCE).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise OvorError("Ray is not installed: pip install 'ovor[ray]'.") from None
    if address not in ("local", "auto"):
        check_address(address)
    new: dict[str, Any] = {
        "num_cpus": jobs,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE,
    }
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **(new if address == "local" else {}),
        )
    except (Exception, SystemExit) as error:
        if "AuthenticationError" in traceback.format_exc():
            raise OvorError(
                f"The Ray cluster at {address} wants its token: set RAY_AUTH_MODE=token, and "
                "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as where it was started."
            ) from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OvorError(f"No Ray cluster at {address} ({reason}): {START}.") from error


def check_address(address: str) -> None:
    """Refuse an address at which nobody listens, without the warnings that Ray would print."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise OvorError(f"--ray takes local, auto or HOST:PORT of the head node, not {address}.")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise OvorError(f"No Ray cluster answers at {address} ({error}): {START}.") from None


def check_size(cpus: int, gpus: float) -> None:
    """Refuse a run that fits on no machine, as Ray would let it wait for ever."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(m.get("CPU", 0) >= cpus and m.get("GPU", 0) >= gpus for m in machines):
        raise OvorError(
            f"No machine of the Ray cluster has the {cpus} CPU and {gpus:g} GPU of a run: choose "
            "fewer --workers, other --gpus-per-run, or --device cpu."
        )
