"""`ovor serve`: a classifier at work, as an HTTP API and a page."""
