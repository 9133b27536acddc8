"""One run by several processes: how they start, what they exchange, and how they end together."""
