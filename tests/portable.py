"""Run the numeric tests as older processors would compute, and by another number of threads.

Sums in another order differ in their last bits, so a test that compares numbers may pass on the
processor on which it was written and nowhere else. `python tests/portable.py` runs the tests below
under each of the settings, after checking that every library obeys its switch.
"""

import os
import re
import subprocess
import sys

import numpy

NUMERIC = (
    "tests/contracts/test_learners.py",
    "tests/contracts/test_prompts.py",
    "tests/parity",
    "tests/training",
    "tests/learners",
    "tests/prompts",
    "tests/outliers",
    "tests/encoders",
    "tests/distributed/test_ranks.py",
    "tests/classifier/test_model.py",
    "tests/classifier/test_bundle.py",
    "tests/compatibility",
)

NUMPY = numpy._core._multiarray_umath.__cpu_dispatch__  # all that it can do without
# MKL obeys the first of its two switches on Intel's processors alone; elsewhere AVX2 is what it
# chooses by itself, and the second switch, to its plainest code, is obeyed everywhere.
SETTINGS = {
    "SSE4, one thread": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "MKL_CBWR": "COMPATIBLE",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": " ".join(NUMPY),
        "OMP_NUM_THREADS": "1",
    },
    "AVX2, two threads": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in NUMPY if re.search("512|V4", name)),
        "OMP_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "passive",  # a thread that waits leaves its core to the others
    },
}

# What the libraries say of themselves under a setting, each by its own means of debugging.
VERBOSE = {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1", "OPENBLAS_VERBOSE": "2"}
PROBE = """
import numpy, torch
torch.nn.functional.conv2d(torch.ones(2, 3, 8, 8), torch.ones(8, 3, 4, 4), stride=4)
torch.ones(8, 8) @ torch.ones(8, 8)
umath = numpy._core._multiarray_umath
print("torch:", torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())
print("numpy:", *(name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]))
"""
OBEYED = {
    "SSE4, one thread": (
        r"^torch: DEFAULT 1$",
        r"isa:Intel SSE4\.1$",
        r"CNR:COMPATIBLE",
        r"^Core: Nehalem$",
        r"^numpy:$",
    ),
    "AVX2, two threads": (
        r"^torch: AVX2 2$",
        r"isa:Intel AVX2$",
        r"MKL_VERBOSE oneMKL .*(\(Intel\(R\) AVX2\)|Intel\(R\) Architecture processors)",
        r"^Core: Haswell$",
        r"^numpy: ((?!512|V4).)+$",
    ),
}


def check(name: str) -> None:
    """Stop if a library does not obey the setting, as the tests would then show nothing."""
    environment = os.environ | SETTINGS[name] | VERBOSE
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True
    )
    said = done.stdout + done.stderr
    missed = [pattern for pattern in OBEYED[name] if not re.search(pattern, said, re.MULTILINE)]
    if missed:
        raise SystemExit(f"{said}\nNot obeyed under {name}: {', '.join(missed)}")


def main(arguments: list[str]) -> int:
    """Run the numeric tests, with more arguments for pytest, under each setting."""
    for name, setting in SETTINGS.items():
        check(name)
        print(f"--- {name}", flush=True)
        command = [sys.executable, "-m", "pytest", *NUMERIC, *arguments]
        if code := subprocess.run(command, env=os.environ | setting, check=False).returncode:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
