"""Transactions by a real client: `python -m bench transactions [--kafka DIR]`, next to Apache Kafka if it is at hand.

The row `transactions` of `bench node`, by itself.
"""

from __future__ import annotations

from bench import node


def main(arguments: list[str] | None = None) -> None:
    node.main(["transactions", *(arguments or [])])
