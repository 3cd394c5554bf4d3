"""The consumer: what it is to read, where it stands, what was fetched, and the group it shares the work with."""
