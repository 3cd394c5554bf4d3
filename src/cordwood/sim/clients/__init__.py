"""Clients of a workload: producers, consumers, administrators."""
