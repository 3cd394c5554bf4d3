"""Benchmarks: `python -m bench [NAME…]` runs them and prints their figures."""

import sys
from pathlib import Path

# Clusters of real processes and their faults are those of `tools/chaos`.
sys.path.append(str(Path(__file__).parents[1] / "tools"))
