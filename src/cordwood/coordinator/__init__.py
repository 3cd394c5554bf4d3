"""Coordinators: the shard runtime, groups with their offsets, transactions."""
