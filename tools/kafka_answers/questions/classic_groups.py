"""Questions about JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups whose answers have no member ids in
them: those of members are random, and what they may do is in tests/coordinator/transcripts/classic."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create

_PROTOCOLS: list[Json] = [{"name": "range", "metadata": "AAA="}]
# A group that has offsets and never had members.
_SIMPLE = "simple"


def _join(group: str, member: str = "nobody", versions: tuple[int, ...] = ALL, **fields: object) -> Question:
    request: Json = {
        "groupId": group,
        "sessionTimeoutMs": 10_000,
        "memberId": member,
        "protocolType": "consumer",
        "protocols": _PROTOCOLS,
        **fields,
    }
    return Question("JoinGroup", request, versions)


def _sync(group: str, versions: tuple[int, ...] = ALL, **fields: object) -> Question:
    request: Json = {"groupId": group, "generationId": 1, "memberId": "nobody", "assignments": [], **fields}
    return Question("SyncGroup", request, versions)


def _heartbeat(group: str, **fields: object) -> Question:
    return Question("Heartbeat", {"groupId": group, "generationId": 1, "memberId": "nobody", **fields}, ALL)


def _leave(group: str, **fields: object) -> Question:
    return Question("LeaveGroup", {"groupId": group, **fields}, ALL)


def _describe(*groups: str, **fields: object) -> Question:
    return Question("DescribeGroups", {"groups": list(groups), **fields}, ALL)


def _commit(group: str) -> Question:
    partitions: list[Json] = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]
    return Question("OffsetCommit", {"groupId": group, "topics": [{"name": "orders", "partitions": partitions}]}, (9,))


CONVERSATION = Conversation(
    [
        create("orders", 1),
        create("__consumer_offsets", 50),
        _describe(),
        _describe("unknown"),
        *(_join(group) for group in ("", "unknown", _SIMPLE)),
        _commit(_SIMPLE),
        _join(_SIMPLE),
        *(_join("unknown", sessionTimeoutMs=ms) for ms in (-1, 0, 5_999, 6_000, 1_800_000, 1_800_001)),
        _join("unknown", groupInstanceId="one"),
        _join(_SIMPLE, groupInstanceId="one"),
        _join(_SIMPLE, "", protocols=[]),
        _join(_SIMPLE, "", protocolType=""),
        *(_sync(group) for group in ("", "unknown", _SIMPLE)),
        *(_sync(group, protocolType="consumer", protocolName="range") for group in ("", "unknown", _SIMPLE)),
        _sync("unknown", protocolType="consumer"),
        _sync("unknown", groupInstanceId="one"),
        *(_heartbeat(group) for group in ("", "unknown", _SIMPLE)),
        _heartbeat(_SIMPLE, groupInstanceId="one"),
        *(_leave(group, memberId="nobody") for group in ("", "unknown", _SIMPLE)),
        *(
            _leave(group, members=members)
            for group in ("", "unknown", _SIMPLE)
            for members in (
                [],
                [{"memberId": "nobody"}],
                [{"memberId": ""}, {"memberId": "", "groupInstanceId": "one"}],
                [{"memberId": "nobody", "groupInstanceId": "one"}, {"memberId": "nobody", "reason": "done"}],
            )
        ),
        _describe(_SIMPLE),
        _describe("", _SIMPLE, "unknown", _SIMPLE),
        _describe(_SIMPLE, "unknown", includeAuthorizedOperations=True),
    ]
)
