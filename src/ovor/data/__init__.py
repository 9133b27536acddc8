"""Data sets and how they become a sequence of tasks (Sec. 5, class-incremental protocol).

This package imports no torch; `ovor.data.loader` does.
"""

from ovor.data.datasets import DATASETS, Dataset, Images, load_dataset

__all__ = ["DATASETS", "Dataset", "Images", "load_dataset"]
