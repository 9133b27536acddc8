"""Who started the processes of a run is found from the environment, and what is missing is said."""

import os

import pytest

from ovor.config import Run
from ovor.distributed.cluster import find_cluster
from ovor.errors import OvorError

SLURM = (
    "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=2 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 "
)
TORCHRUN = "TORCHELASTIC_RUN_ID=7 WORLD_SIZE=4 LOCAL_WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 "
MEETING = "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 NODE_RANK=1 "
OF_OTHERS = "NODE_RANK=1 LOCAL_RANK=1"
OTHERS = ("NODE_RANK", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


def set_environment(settings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set NAME=VALUE; the last of a name counts, and other such names have no value.

    Others may have one of tests before, as a run of several processes sets MASTER_PORT.
    """
    for name in list(os.environ):
        if name.startswith(("SLURM_", "TORCHELASTIC_", "MASTER_")) or name in OTHERS:
            monkeypatch.delenv(name)
    for setting in settings.split():
        monkeypatch.setenv(*setting.split("="))


@pytest.mark.parametrize(
    ("run", "environment", "devices", "nodes", "started", "has_rank_0"),
    [
        (Run(devices=3), "", 3, 1, False, True),
        (Run(), OF_OTHERS, 1, 1, False, True),
        (Run(devices=2), OF_OTHERS, 2, 1, False, True),
        (Run(nodes=2), MEETING, 1, 2, False, False),
        (Run(nodes=2), MEETING + "NODE_RANK=0", 1, 2, False, True),
        (Run(devices=3), SLURM + "SLURM_NTASKS_PER_NODE=2", 2, 2, True, False),
        (Run(devices=3), SLURM + "SLURM_NTASKS=1", 3, 1, False, True),
        (Run(), TORCHRUN, 1, 4, True, True),
        (Run(devices=2, nodes=2), TORCHRUN, 1, 4, True, True),
        (Run(), TORCHRUN + "WORLD_SIZE=1", 1, 1, False, True),
    ],
)
def test_the_processes_are_found(
    run: Run,
    environment: str,
    devices: int,
    nodes: int,
    started: bool,
    has_rank_0: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_environment(environment, monkeypatch)
    found = find_cluster(run)
    assert (found.devices, found.nodes, found.size) == (devices, nodes, devices * nodes)
    assert (found.started, found.has_rank_0) == (started, has_rank_0)


@pytest.mark.parametrize(
    ("run", "environment", "sentence"),
    [
        (Run(devices=3), SLURM, "--ntasks-per-node"),
        (Run(devices=2), TORCHRUN + "WORLD_SIZE=1", "--nproc-per-node"),
        (Run(devices=3), TORCHRUN, "start 4 in all, not 3"),
        (Run(nodes=2), "MASTER_ADDR=x", "needs MASTER_PORT and NODE_RANK in the environment"),
        (Run(nodes=2), MEETING + "NODE_RANK=2", "must be from 0 to 1"),
        (Run(nodes=2), MEETING + "NODE_RANK=-1", "must be from 0 to 1"),
        (Run(nodes=2), MEETING + "NODE_RANK=x", "must be from 0 to 1"),
        (Run(nodes=2), MEETING + "MASTER_PORT=abc", "must be a port"),
        (Run(nodes=2), MEETING + "MASTER_ADDR=no.such.invalid", r"'no\.such.* is not known here"),
    ],
)
def test_what_is_missing_is_said(
    run: Run, environment: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(environment, monkeypatch)
    with pytest.raises(OvorError, match=sentence):
        find_cluster(run)
