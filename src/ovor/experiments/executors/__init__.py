"""Executors, which do the runs of a grid: in processes here, on a Ray cluster, or by SLURM."""
