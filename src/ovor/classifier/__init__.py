"""The growing classifier: learn, predict, evaluate, save, export, share."""
