"""What the paper computes about its methods besides accuracy."""
