"""Find out which processes do a run: those that torchrun or SLURM started, or as the run says."""

import os
import socket
from dataclasses import dataclass

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from ovor.config import Run
from ovor.errors import OvorError

RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")


@dataclass(frozen=True)
class Cluster:
    """How many processes (devices) run on each of how many machines (nodes)."""

    environment: ClusterEnvironment
    devices: int
    nodes: int

    @property
    def size(self) -> int:
        return self.devices * self.nodes

    @property
    def started(self) -> bool:
        """Return whether this process is already one of them, rather than to start them."""
        return not isinstance(self.environment, LightningEnvironment)

    @property
    def has_rank_0(self) -> bool:
        """Return whether rank 0 is this process or will be started by it."""
        if self.started:
            return self.environment.global_rank() == 0
        return self.nodes == 1 or self.environment.node_rank() == 0


def find_cluster(run: Run) -> Cluster:
    """Return what torchrun or SLURM started, if several processes, else what the run asks for."""
    wanted = run.devices * run.nodes
    if TorchElasticEnvironment.detect():
        size, devices = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
        if wanted not in (1, size):
            raise OvorError(
                f"torchrun was told to start {size} in all, not {wanted}: give the number to it, "
                "as --nproc-per-node, and leave out --devices and --nodes."
            )
        if size > 1:
            return Cluster(TorchElasticEnvironment(), devices, size // devices)
    elif "SLURM_NTASKS" in os.environ and SLURMEnvironment.detect():
        size, nodes = int(os.environ["SLURM_NTASKS"]), int(os.environ.get("SLURM_NNODES", 1))
        if size > 1 and "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise OvorError(
                f"SLURM was asked for {size} tasks, but not for how many on each machine: use "
                "--ntasks-per-node instead of --ntasks."
            )
        if size > 1:
            return Cluster(SLURMEnvironment(), size // nodes, nodes)
    if run.nodes > 1:
        check_rendezvous(run.nodes)
    # Left by another program, it would make fabric believe that this process is a started one.
    os.environ.pop("LOCAL_RANK", None)
    return Cluster(LightningEnvironment(), run.devices, run.nodes)


def check_rendezvous(nodes: int) -> None:
    """Refuse an environment that does not say where the machines meet.

    Without it every machine would take itself for the first, and wait for the others.
    """
    missing = [name for name in RENDEZVOUS if name not in os.environ]
    if missing:
        raise OvorError(
            f"--nodes {nodes} also needs {' and '.join(missing)} in the environment: on every "
            "machine MASTER_ADDR and MASTER_PORT, the address and a free port of the first, and "
            f"NODE_RANK, its own number from 0 to {nodes - 1}."
        )
    address, port, rank = (os.environ[name] for name in RENDEZVOUS)
    if not rank.isdigit() or int(rank) >= nodes:
        raise OvorError(
            f"NODE_RANK is {rank!r}, but with --nodes {nodes} it must be from 0 to {nodes - 1}."
        )
    if not port.isdigit() or not 0 < int(port) < 2**16:
        raise OvorError(f"MASTER_PORT is {port!r}, but it must be a port, such as 29500.")
    try:
        socket.getaddrinfo(address, int(port))
    except OSError as error:
        raise OvorError(
            f"MASTER_ADDR is {address!r}, which is not known here ({error.strerror}): give the "
            "name or address of the first machine."
        ) from error
