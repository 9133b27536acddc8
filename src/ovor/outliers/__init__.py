"""Virtual outliers in feature space (Sec. 4.1, Alg. 2)."""

from ovor.outliers.exact_search import synthesize

__all__ = ["synthesize"]
