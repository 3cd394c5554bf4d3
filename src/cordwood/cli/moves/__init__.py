"""Moves of replicas between brokers: plans, their files, throttles, progress."""
