"""Clients of the project's own library in a run: producers, consumers and members, beside the hand-written ones."""
