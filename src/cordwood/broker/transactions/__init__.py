"""Transactions on this broker: markers, producer ids, and waiting for completion."""
