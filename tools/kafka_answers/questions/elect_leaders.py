"""Questions about ElectLeaders."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create


def _elect(
    topics: list[tuple[str, list[int]]] | None, kind: int | None = None, versions: tuple[int, ...] = ALL
) -> Question:
    asked = None if topics is None else [{"topic": name, "partitions": numbers} for name, numbers in topics]
    request: Json = {"topicPartitions": asked, "timeoutMs": 30000}
    if kind is not None:
        request["electionType"] = kind
    return Question("ElectLeaders", request, versions)


CONVERSATION = Conversation(
    [
        _elect(None),
        create("led", 3),
        create("also-led", 1),
        _elect(None),
        _elect([("led", [0, 1])]),
        *(_elect([("led", [0])], kind) for kind in (0, 1, 2, -1)),
        _elect(None, 1),
        _elect([("led", [0, 3]), ("nowhere", [0]), ("also-led", [0])]),
        _elect([("led", [0, 0])]),
        _elect([("led", [-1])]),
        _elect([("led", [])]),
        _elect([]),
        _elect([("", [0])]),
    ]
)
