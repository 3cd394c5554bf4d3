"""A log's files: segments with their indexes, and the list of them."""
