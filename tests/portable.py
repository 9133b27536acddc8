"""Run the numeric tests as older processors would compute them, and by another number of threads.

Sums in another order differ in their last bits, so a test that compares numbers may hold on the
processor on which it was written and nowhere else. `python tests/portable.py` first checks that
every library obeys its switch, then runs the tests below under each setting.
"""

import json
import os
import re
import subprocess
import sys

NUMERIC = [
    "tests/contracts",
    "tests/parity",
    "tests/training",
    "tests/learners",
    "tests/prompts",
    "tests/outliers",
    "tests/encoders/test_vit.py",
    "tests/encoders/test_pet.py",
    "tests/distributed/test_ranks.py",
    "tests/classifier/test_file.py",
    "tests/classifier/test_model.py",
    "tests/classifier/test_bundle.py",
    "tests/compatibility",
]

# MKL obeys MKL_ENABLE_INSTRUCTIONS on Intel's processors only; MKL_CBWR=COMPATIBLE, its plainest
# code, on all. NumPy's names of features differ between its versions: PROBE tells them.
SETTINGS = {
    "SSE4 and one thread": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "OVOR_TEST_THREADS": "1",
    },
    "AVX2 and two threads": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "OVOR_TEST_THREADS": "2",
    },
}
