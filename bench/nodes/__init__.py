"""Whole brokers, measured from outside: how they are started, loaded and compared (`python -m bench node`)."""
