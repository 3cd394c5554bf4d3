"""Rewrites docs/benchmarks.md from the history."""

from pathlib import Path

from bench.history.runs import HISTORY
from bench.history.trend import load, render

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def main() -> None:
    lines = HISTORY.read_text(encoding="utf-8").splitlines() if HISTORY.exists() else []
    PAGE.write_text(render(load(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
