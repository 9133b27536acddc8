"""Runs and grids of runs, and their result folders."""
