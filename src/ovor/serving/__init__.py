"""A classifier where others use it: exported, shared."""
