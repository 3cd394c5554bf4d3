"""Listeners with their TLS, servers, and connections to other nodes, as configured."""
