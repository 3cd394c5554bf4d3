"""The node: handlers of requests, and what wires the parts together."""
