"""Questions about CreatePartitions."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create, look_at


def _grow(*topics: Json, versions: tuple[int, ...] = (), validate_only: bool = False) -> Question:
    request = {"topics": list(topics), "timeoutMs": 30000, "validateOnly": validate_only}
    return Question("CreatePartitions", request, versions)


def _to(name: str, count: int, assignments: list[list[int]] | None = None) -> Json:
    told = None if assignments is None else [{"brokerIds": brokers} for brokers in assignments]
    return {"name": name, "count": count, "assignments": told}


_ASSIGNMENTS: list[list[list[int]]] = [[[1], [1]], [], [[]], [[2]], [[1, 2]], [[1, 1]], [[-1]]]

CONVERSATION = Conversation(
    [
        create("grown", 1),
        create("kept", 3),
        *(_grow(_to("grown", 2 + version), versions=(version,)) for version in range(4)),
        *(_grow(_to("kept", count)) for count in (3, 2, 0, -1)),
        _grow(_to("nowhere", 3)),
        _grow(_to("", 3)),
        _grow(_to("kept", 4), _to("kept", 5)),
        _grow(_to("kept", 4), _to("nowhere", 4)),
        _grow(),
        _grow(_to("kept", 6), validate_only=True, versions=ALL),
        _grow(_to("kept", 2), validate_only=True),
        _grow(_to("kept", 5, [[1]])),
        *(_grow(_to("kept", 6, assignments)) for assignments in _ASSIGNMENTS),
        look_at(),
    ]
)
