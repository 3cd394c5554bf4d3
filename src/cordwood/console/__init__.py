"""Monitoring of a running node: metrics and health."""
