"""The history of benchmark figures: `figures.jsonl` has one JSON object per figure of each run, oldest first.

`python -m bench` appends to it; `python -m bench.history` renders docs/benchmarks.md from it.
"""
