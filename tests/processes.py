"""One run in several processes: forked from the test, or started as a person would."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes

from ovor.distributed.ranks import Ranks

# How far what several processes learn may be from what one learns, as they add up in another order.
# A gradient of the tiny network comes through 2 x 5 blocks of 6 products of 64 terms, and is a sum
# over 8 images of 5 tokens: so many additions in float32 err by about the square root of their
# number, in units of 2^-24 (Higham and Mary, 2019): EPSILON, of the size of a usual gradient. Adam
# divides a gradient g by its own size, so that a weight's step changes by EPSILON / |g|, but by no
# more than from one learning rate to the other way round. No bound on the single weight follows:
# among thousands there is one with a g of nearly zero. If the |g| are spread evenly up to the usual
# size, the mean square of min(2, EPSILON / |g|) is 4 EPSILON: hence the root mean square of all
# weights of a tensor. SGD divides by nothing: each of its steps adds an EPSILON at most.
EPSILON = (2 * 5 * 6 * 64 + 8 * 5) ** 0.5 * 2**-24
CLOSE = 2 * EPSILON**0.5  # 0.004 of what a weight has moved, which is no more than its size
CLOSE_BY_SGD = 4 * 9 * EPSILON  # 4 epochs of 9 batches, of all three tasks: 0.0001
SECONDS = 240  # for anything here, on a busy machine


def together(size: int, folder: Path, work: Callable[..., None], *args: Any) -> None:
    """Do the work in so many ranks: forked, as loading torch anew would take longer than it."""
    folder.mkdir(parents=True, exist_ok=True)
    meeting = folder / f"meeting-{time.monotonic_ns()}"
    arguments = (size, str(meeting), work, args)
    processes = start_processes(_joined, arguments, nprocs=size, join=False, start_method="fork")
    end = time.monotonic() + SECONDS
    while not processes.join(timeout=1, grace_period=15):  # for the others, when one fails
        assert time.monotonic() < end


def _joined(
    rank: int, size: int, meeting: str, work: Callable[..., None], args: tuple[Any, ...]
) -> None:
    # OpenMP's other threads stayed in the process that was forked: a second would be waited for.
    torch.set_num_threads(1)
    torch.set_num_threads = lambda count: None
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    work(Ranks(rank, size), *args)
    dist.barrier()


def difference(one: Path, other: Path) -> float:
    """Return the largest relative difference of a tensor, in all that two runs learned or kept."""
    found, expected = (load_file(path / "weights.safetensors") for path in (one, other))
    assert found.keys() == expected.keys()
    pairs = [(without_key_biases(found[k]), without_key_biases(expected[k])) for k in found]
    return max(((a - b).norm() / b.norm()).item() for a, b in pairs if a.numel())


def without_key_biases(tensor: Tensor) -> Tensor:
    """Leave out what attention does not feel: its gradient is nothing but rounding, of which Adam
    makes whole steps. That concerns L2, which trains attention by Adam."""
    return tensor.view(3, -1)[::2] if tensor.shape == (3 * 64,) else tensor


MODULE = sys.executable, "-m"
SCRIPTS = Path(sys.executable).parent


def start(
    folder: Path, *arguments: str, by: Sequence[str] = MODULE, **environment: str
) -> subprocess.Popen[str]:
    """Start a module of Python, or the command `by`, in the folder."""
    return subprocess.Popen(
        [*by, *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What runs in the background is deaf to Ctrl-C, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a process, and return its code and what it said on stdout and stderr."""
    try:
        said, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    # On a busy machine they take long to meet, and say so.
    return process.returncode, said, re.sub("^Waiting for .* machines .*\n", "", errors)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait for a file that a process is to write."""

    def written() -> bool:
        assert process.poll() is None
        return path.exists()

    wait_until(written)


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Return whether a process runs, and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(process: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the processes that do the run, in the order in which they were started."""
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            yield int(pid)


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


class Link:
    """Two network namespaces of this machine, as if they were two machines, and a cable."""

    addresses = "10.77.0.1", "10.77.0.2"

    def __init__(self) -> None:
        self.names = [f"ovor-{os.getpid()}-{end}" for end in "ab"]
        self.cables = [f"ovor{os.getpid()}{end}" for end in "ab"]

    def inside(self, end: int) -> list[str]:
        """Return a command that runs a command there."""
        return ["ip", "netns", "exec", self.names[end]]

    def cut(self) -> None:
        """Cut the cable."""
        ip("-n", self.names[0], "link", "set", self.cables[0], "down")

    def lay(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        (here, there), (one, other) = self.names, self.cables
        ip("link", "add", one, "netns", here, "type", "veth", "peer", "name", other, "netns", there)
        for name, cable, address in zip(self.names, self.cables, self.addresses, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", cable)
            for device in (cable, "lo"):
                ip("-n", name, "link", "set", device, "up")

    def remove(self) -> None:
        """Remove the namespaces with all that runs there."""
        for name in self.names:
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=False)
            for pid in pids.stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[Link]:
    """Lay the cable, or skip the test where that is not allowed."""
    link = Link()
    try:
        try:
            link.lay()
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no network namespaces: they need Linux, root and the command ip")
        yield link
    finally:
        link.remove()
