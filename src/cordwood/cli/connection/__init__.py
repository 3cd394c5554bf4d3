"""Connections of commands to a cluster, and the profiles that name them."""
