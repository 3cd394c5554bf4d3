"""Benchmarks: `python -m bench [NAME…]` runs them and prints their figures."""
