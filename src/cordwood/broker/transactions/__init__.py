"""Transactions on this broker: their markers, producer ids, and waiting for an end."""
