"""Histories of a run: the input of the checks."""
