"""Questions about DescribeQuorum."""

from __future__ import annotations

from kafka_answers.conversation import ALL, CONTROLLER, Conversation, Json, Question

from .common import create


def _describe(*topics: tuple[str, list[int]], at: str = "broker") -> Question:
    asked: list[Json] = [
        {"topicName": name, "partitions": [{"partitionIndex": index} for index in partitions]}
        for name, partitions in topics
    ]
    return Question("DescribeQuorum", {"topics": asked}, ALL, at)


CONVERSATION = Conversation(
    [
        _describe(("__cluster_metadata", [0])),
        _describe(("__cluster_metadata", [0]), at=CONTROLLER),
        _describe(("__cluster_metadata", [1])),
        _describe(("__cluster_metadata", [0, 1])),
        _describe(("__cluster_metadata", [0, 0])),
        create("other"),
        _describe(("other", [0])),
        _describe(("other", [0]), ("__cluster_metadata", [0])),
        _describe(("__cluster_metadata", [])),
        _describe(),
    ]
)
