"""Questions about DescribeLogDirs."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import create


def _describe(topics: list[tuple[str, list[int]]] | None) -> Question:
    asked = None if topics is None else [{"topic": name, "partitions": numbers} for name, numbers in topics]
    return Question("DescribeLogDirs", {"topics": asked}, ALL)


CONVERSATION = Conversation(
    [
        _describe(None),
        create("a", 2),
        create("b", 1),
        _describe(None),
        _describe([]),
        _describe([("a", [0])]),
        _describe([("a", [0, 1]), ("b", [0])]),
        _describe([("a", [0, 0])]),
        _describe([("a", [7]), ("nowhere", [0])]),
        _describe([("a", [])]),
        _describe([("__cluster_metadata", [0])]),
    ]
)
