"""Freed memory is used again without the system's help."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from ovor.memory import keep_freed_memory

ROUNDS, PAGES = 24, 64 * 2**20 // 4096
PROGRAM = f"""
import resource, torch
from ovor.memory import LEFT_ALONE, keep_freed_memory
assert keep_freed_memory(*BLOCK)
torch.empty(16 * 2**20).fill_(1)  # 64 MB, freed at once
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    torch.empty(16 * 2**20).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(block: str) -> int:
    program = PROGRAM.replace("BLOCK", block)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_large_blocks_are_paid_for_once() -> None:
    left_alone, kept = page_faults("[LEFT_ALONE]"), page_faults("[]")
    # At first a block may not fit where the last one was: small ones have settled beside it.
    assert kept < ROUNDS * PAGES / 2
    assert left_alone > ROUNDS * PAGES * 0.9 or huge_pages()


def test_a_users_own_setting_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed_memory()


def huge_pages() -> bool:
    """Of which the system may give hundreds by one fault."""
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return path.exists() and "[always]" in path.read_text()
