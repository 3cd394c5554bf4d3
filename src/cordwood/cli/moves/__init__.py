"""Replicas on their way between brokers: plans, their files, throttles, progress."""
