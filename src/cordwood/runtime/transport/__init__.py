"""Connections over sockets, and TLS over connections."""
