"""Connections to other nodes: versions, reconnects with back-off, throttling, and requests in flight."""
