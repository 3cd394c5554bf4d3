"""Offsets of a consumer: its start, its position, and its commits."""
