"""Produce: its fast path, and the guard against writes outside of a transaction."""
