"""Who does the runs of a grid: processes of this machine, a Ray cluster, or SLURM."""
