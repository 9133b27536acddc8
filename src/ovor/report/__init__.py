"""The report: one HTML page, with all it needs inside, of what was run and what came of it."""
