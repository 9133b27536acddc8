"""Runs and grids of runs, with their result folders."""
