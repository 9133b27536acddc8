"""One run by several processes: what they exchange, how they start, and how they end."""
