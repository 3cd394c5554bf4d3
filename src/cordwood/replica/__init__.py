"""Partitions on this broker: what leads, how far it is acknowledged, and who waits for that."""
