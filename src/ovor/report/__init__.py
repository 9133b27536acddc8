"""One self-contained page of what runs showed."""
