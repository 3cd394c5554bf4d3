"""Clients of the project's own library in a run: producers, consumers and members, beside those that ask by hand."""
