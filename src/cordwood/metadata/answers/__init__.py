"""Handlers that serve both roles, and code that their handlers share."""
