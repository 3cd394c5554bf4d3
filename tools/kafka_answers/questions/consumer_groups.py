"""Questions about ConsumerGroupHeartbeat and ConsumerGroupDescribe: what makes no sense, and the lives of some members.

How heartbeats play together over time is in the transcripts of the coordinator's tests.
"""

from __future__ import annotations

from typing import Any

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create

_ORDERS = [{"topicId": "id:orders", "partitions": [0, 1, 2, 3]}]


def _heartbeat(member: str, epoch: int, group: str = "g", versions: tuple[int, ...] = (1,), **said: Any) -> Question:
    request: Json = {"groupId": group, "memberId": member, "memberEpoch": epoch, **said}
    return Question("ConsumerGroupHeartbeat", request, versions)


def _join(member: str, **said: Any) -> Question:
    first = {"rebalanceTimeoutMs": 30000, "subscribedTopicNames": ["orders"], "topicPartitions": [], **said}
    return _heartbeat(member, 0, **first)


def _owns(member: str, epoch: int, *partitions: int, **said: Any) -> Question:
    owned = [{"topicId": "id:orders", "partitions": list(partitions)}] if partitions else []
    return _heartbeat(member, epoch, topicPartitions=owned, **said)


def _describe(*groups: str) -> Question:
    return Question("ConsumerGroupDescribe", {"groupIds": list(groups), "includeAuthorizedOperations": False}, ALL)


_SENSELESS = [
    _join("", versions=(1,)),
    _join("a", group=""),
    _join("a", group=" "),
    _join("a", instanceId=""),
    _join("a", rackId=" "),
    _join("a", rebalanceTimeoutMs=-1),
    _join("a", topicPartitions=None),
    _join("a", topicPartitions=_ORDERS),
    _join("a", subscribedTopicNames=None),
    _join("a", serverAssignor="magic"),
    _join("a", serverAssignor=""),
    *(_heartbeat("a", epoch, versions=ALL) for epoch in (-3, -2, -1, 1)),
    _heartbeat("", -1, versions=ALL),
    _heartbeat("", 1, versions=(0,)),
    _heartbeat("", -2, versions=(0,), instanceId="i"),
    _heartbeat("a", -2, instanceId="i"),
    _describe("g", "", "no such group"),
    _describe(),
]

_LIFE = [
    _join("a", versions=ALL),
    _owns("a", 2, 0, 1, 2, 3),
    _heartbeat("a", 2, versions=ALL),
    _describe("g"),
    _heartbeat("b", 2),
    _join("b", serverAssignor="range", rackId="r"),
    _heartbeat("a", 2),
    _describe("g"),
    _heartbeat("b", 3),
    _owns("a", 2, 0, 1),
    _heartbeat("b", 3),
    _owns("b", 3, 2, 3),
    # One epoch behind, with and without owned partitions.
    _owns("a", 2, 0),
    _owns("a", 2, 0, 3),
    _heartbeat("a", 2),
    _heartbeat("a", 4),
    # Everything, at any time.
    _heartbeat("a", 3, rebalanceTimeoutMs=30000, subscribedTopicNames=["orders"], topicPartitions=_ORDERS),
    _join("a"),
    _describe("g"),
    # Other topics, topics that are not there, none.
    _heartbeat("b", 3, subscribedTopicNames=["orders", "refunds"]),
    _heartbeat("b", 4),
    _heartbeat("a", 3),
    _heartbeat("b", 4, subscribedTopicNames=["nowhere"], topicPartitions=[]),
    _heartbeat("a", 4),
    _heartbeat("b", 5, subscribedTopicNames=[]),
    _describe("g"),
    _heartbeat("b", -1, versions=ALL),
    _describe("g"),
    _heartbeat("a", -1),
    _describe("g"),
    Question("DescribeGroups", {"groups": ["g"]}, ALL),
    Question("ListGroups", {}, (5,)),
]

_STATIC = [
    _join("a1", group="s", instanceId="i-a"),
    _join("a1", group="s", instanceId="i-a"),
    _join("a2", group="s", instanceId="i-a"),
    _heartbeat("a2", 2, group="s", instanceId="i-a"),
    _heartbeat("a1", 2, group="s", instanceId="i-b"),
    _heartbeat("a1", 2, group="s", instanceId="i-a"),
    _heartbeat("a1", 2, group="s"),
    _heartbeat("a2", -2, group="s", instanceId="i-a"),
    _heartbeat("a1", -2, group="s", instanceId="i-a"),
    _describe("s"),
    _heartbeat("a1", 2, group="s", instanceId="i-a"),
    _join("a2", group="s", instanceId="i-a"),
    _describe("s"),
    _heartbeat("a1", 2, group="s", instanceId="i-a"),
    _heartbeat("a2", -1, group="s", instanceId="i-a"),
    _describe("s"),
]

_CLASSIC = [
    Question(
        "OffsetCommit",
        {
            "groupId": "c",
            "topics": [
                {"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]}
            ],
        },
        (9,),
    ),
    _heartbeat("a", 1, group="c"),
    _heartbeat("a", -1, group="c"),
    _describe("c"),
    _join("a", group="c"),
    _describe("c"),
    Question("OffsetFetch", {"groups": [{"groupId": "c", "topics": None}]}, (9,)),
    *(Question("DeleteGroups", {"groupsNames": [name]}, (2,)) for name in ("c", "g", "s")),
]

CONVERSATION = Conversation(
    [
        create("__consumer_offsets", 50),
        create("orders", 4),
        create("refunds", 1),
        *_SENSELESS,
        *_LIFE,
        *_STATIC,
        *_CLASSIC,
    ],
    settings={"group.consumer.assignment.interval.ms": "0"},
)
