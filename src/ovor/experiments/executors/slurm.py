"""Execute the runs of a grid as jobs of a SLURM cluster, by submitit.

The command that started the grid stays, submits what may run and follows it; jobs talk to it by
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
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors import remote
from ovor.experiments.executors.base import Died, Executor, Outcome

DEFAULTS = {"time": "24:00:00", "mem": "8G", "job_name": "ovor"}
ASK = 30  # seconds between questions to SLURM about jobs that left no result


class SlurmExecutor:
    def __init__(
        self, shared: remote.SharedFolder, options: Mapping[str, Any], jobs: int | None
    ) -> None:
        self.jobs, self.shared, self.options = jobs, shared, options
        self.folder = shared.marker.parent / f".slurm-{secrets.token_hex(4)}"
        self.submitit = submitit_executor(self.folder / "%j")
        self.running: dict[Any, Path] = {}
        self.asked = time.monotonic()

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        own = {"cpus_per_task": 1 + run.workers}
        self.submitit.update_parameters(additional_parameters=own | dict(self.options))
        try:
            job = self.submitit.submit(work, self.shared.request(run, path, vor_cache))
        except (FailedJobError, FailedSubmissionError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise OvorError(f"SLURM did not take the job ({reason}): mend the options.") from error
        self.running[job] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        time.sleep(seconds)
        ask = time.monotonic() > self.asked + ASK
        if ask:
            self.asked = time.monotonic()
        for job in list(self.running):
            if job.done(force_check=ask):
                yield self.running.pop(job), outcome(job)
            ask = False  # submitit asks about all jobs at once

    def stop(self) -> None:
        for job in self.running:
            job.cancel(check=False)


def work(request: remote.Request) -> remote.Response:
    """Do the requested run, in a job."""
    # By this submitit would end the run some time before the limit; every epoch is saved anyway.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return remote.serve(request, socket.gethostname())


def outcome(job: Any) -> Outcome:
    """Return how a job ended, or raise the error of its run."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return remote.result_of(job.result())
    except FailedJobError as error:  # a mistake in ovor, which another try would repeat
        raise RuntimeError(f"job {job.job_id} failed, see {job.paths.stderr}") from error
    except UncompletedJobError:
        return Died(f"job {job.job_id}, {job.state}, see {job.paths.stderr}")


def submitit_executor(folder: Path) -> Any:
    """Return submitit's executor with its files in `folder`."""
    try:
        import submitit
    except ImportError:
        raise OvorError("submitit is not installed: pip install 'ovor[slurm]'.") from None
    if not shutil.which("sbatch") or not shutil.which("srun"):
        raise OvorError("There is no SLURM on this machine (no sbatch): start on a login node.")
    return submitit.SlurmExecutor(folder)


@contextmanager
def on_slurm(options: Mapping[str, Any], out: Path, jobs: int | None) -> Iterator[Executor]:
    """Submit runs with these options of sbatch; leaving by an error cancels what still runs."""
    with remote.sharing(out) as shared:
        executor = SlurmExecutor(shared, DEFAULTS | dict(options), jobs)
        try:
            yield executor
        except BaseException:
            executor.stop()
            raise
        shutil.rmtree(executor.folder, ignore_errors=True)  # logs are of use after an error alone
