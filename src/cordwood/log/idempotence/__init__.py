"""Producers of a partition: duplicates, epochs and open transactions, with their snapshot files."""
