"""Rows of the benchmark of coordinators."""
