"""Freed memory is kept for the next step, instead of going back to the system.

Left alone, glibc maps every block over 32 MB anew, so that on a CPU each large activation of each
step is paid for again, page by page. The price of keeping it is some more memory in all.
"""

import ctypes
import os

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
LEFT_ALONE = 32 * 2**20  # bytes, to which glibc raises the threshold by itself
LARGEST = 2**31 - 1  # that mallopt takes
BY_THE_USER = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(block: int = LARGEST) -> bool:
    """For this process, from now on, blocks of up to this size.

    False where the C library has no such setting, or the user has made one by the environment.
    """
    if any(name in os.environ for name in BY_THE_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl, Windows
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, block) and mallopt(M_TRIM_THRESHOLD, block))
