"""Algorithm 1 of the paper: the loop, and what it works with."""
