"""Runs as jobs of a SLURM cluster, by submitit.

The command that started the grid stays, hands over what may run and follows it; jobs talk to it by
files alone.
"""

import secrets
import shutil
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from ovor.config import Run
from ovor.experiments.executors.base import Died, Executor, Outcome, PlaceError
from ovor.experiments.executors.remote import Order, Shared, carry_out, result_of, shared

DEFAULTS = {"time": "24:00:00", "mem": "8G", "job_name": "ovor"}
ASK = 30  # seconds between questions to SLURM about jobs that left no answer
Cluster = Literal["slurm", "local"]


class SlurmExecutor:
    def __init__(
        self, cluster: Cluster, where: Shared, options: Mapping[str, Any], jobs: int | None
    ) -> None:
        self.jobs, self.where, self.options = jobs, where, options
        self.folder = where.proof.parent / f".slurm-{secrets.token_hex(4)}"
        self.cluster = submitit_executor(cluster, self.folder / "%j")
        self.running: dict[Any, Path] = {}
        self.asked = time.monotonic()

    def submit(self, run: Run, path: Path, stem: Path | None) -> None:
        import submitit
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        if isinstance(self.cluster, submitit.SlurmExecutor):
            own = {"cpus_per_task": 1 + run.workers}
            self.cluster.update_parameters(additional_parameters=own | dict(self.options))
        try:
            job = self.cluster.submit(work, self.where.order(run, path, stem))
        except (FailedJobError, FailedSubmissionError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise PlaceError(f"SLURM did not take the job ({reason}): mend the options.") from error
        self.running[job] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        time.sleep(seconds)
        ask = time.monotonic() > self.asked + ASK
        if ask:
            self.asked = time.monotonic()
        for job in list(self.running):
            if job.done(force_check=ask):
                yield self.running.pop(job), outcome(job)
            ask = False  # one question is about all

    def stop(self) -> None:
        for job in self.running:
            job.cancel(check=False)


def work(order: Order) -> dict[str, Any]:
    # submitit would end the run by this some time before the limit; every epoch is saved anyway.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return carry_out(order, socket.gethostname())


def outcome(job: Any) -> Outcome:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return result_of(job.result())
    except FailedJobError as error:  # a mistake in ovor, which others would make too
        raise RuntimeError(f"job {job.job_id} failed, see {job.paths.stderr}") from error
    except UncompletedJobError:
        return Died(f"job {job.job_id}, {job.state}, see {job.paths.stderr}")


def submitit_executor(cluster: Cluster, folder: Path) -> Any:
    """Job files in the shared folder; `local` runs them on this machine, to try them."""
    try:
        import submitit
    except ImportError:
        raise PlaceError("submitit is not installed: pip install 'ovor[slurm]'.") from None
    if cluster == "local":
        executor = submitit.LocalExecutor(folder)
        executor.update_parameters(timeout_min=60)
        return executor
    if not shutil.which("sbatch") or not shutil.which("srun"):
        raise PlaceError("There is no SLURM on this machine (no sbatch): start on a login node.")
    return submitit.SlurmExecutor(folder)


@contextmanager
def on_slurm(
    options: Mapping[str, Any], out: Path, jobs: int | None, cluster: Cluster = "slurm"
) -> Iterator[Executor]:
    """`options` are those of sbatch; what runs when this ends early is cancelled."""
    with shared(out) as where:
        executor = SlurmExecutor(cluster, where, DEFAULTS | dict(options), jobs)
        try:
            yield executor
        except BaseException:
            executor.stop()
            raise
        shutil.rmtree(executor.folder, ignore_errors=True)  # of no use when all went well
