"""The same work done with each client library, against the same node."""
