"""Transactions by a real client: `python -m bench transactions [--kafka DIR]`, next to Apache Kafka if it is available.

The row `transactions` of `bench node` alone.
"""

from __future__ import annotations

from bench import node


def main(arguments: list[str] | None = None) -> None:
    node.main(["transactions", *(arguments or [])])
