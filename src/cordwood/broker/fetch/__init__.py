"""Fetch: which partitions a fetcher wants, what it finds there, and how it waits for more."""
