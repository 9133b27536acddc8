"""Virtual outliers in feature space (Sec. 4.1, Alg. 2)."""

from ovor.outliers.npos import synthesize

__all__ = ["synthesize"]
