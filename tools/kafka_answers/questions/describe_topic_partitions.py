"""Questions about DescribeTopicPartitions."""

from __future__ import annotations

from kafka_answers.conversation import Conversation, Json, Question

from .common import create, create_topics, topic


def _describe(*names: str, limit: int | None = None, cursor: tuple[str, int] | None = None) -> Question:
    request: Json = {"topics": [{"name": name} for name in names]}
    if limit is not None:
        request["responsePartitionLimit"] = limit
    if cursor is not None:
        request["cursor"] = {"topicName": cursor[0], "partitionIndex": cursor[1]}
    return Question("DescribeTopicPartitions", request)


CONVERSATION = Conversation(
    [
        _describe(),
        _describe("nowhere"),
        create("b", 3),
        create("a", 2),
        create_topics([topic("B", 1), topic("c", 4)]),
        _describe(),
        _describe("c", "a"),
        _describe("a", "a"),
        _describe("a", "nowhere", "c"),
        _describe("a b"),
        *(_describe(limit=limit) for limit in (1, 2, 3, 5, 6, 9, 10, 11, 0, -1)),
        *(_describe("a", "b", "nowhere", limit=limit) for limit in (1, 2, 3, 5, 6)),
        _describe(cursor=("a", 1)),
        _describe(cursor=("b", 2)),
        _describe(cursor=("b", 3)),
        _describe(cursor=("b", 100)),
        _describe(cursor=("b", -1)),
        _describe(cursor=("bb", 0)),
        _describe(cursor=("bb", 2)),
        _describe(cursor=("zz", 0)),
        _describe(cursor=("", 0)),
        _describe(cursor=("a", 1), limit=2),
        _describe(cursor=("b", 1), limit=2),
        _describe(cursor=("b", 1), limit=3),
        _describe("a", "b", cursor=("b", 1)),
        _describe("a", "c", cursor=("b", 1)),
        _describe("a", "b", cursor=("c", 1)),
        _describe("a", "nowhere", cursor=("nowhere", 0)),
    ],
    ordered=True,
)
