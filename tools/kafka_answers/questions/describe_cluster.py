"""Questions about DescribeCluster."""

from __future__ import annotations

from kafka_answers.conversation import ALL, CONTROLLER, Conversation, Json, Question


def _describe(versions: tuple[int, ...] = ALL, at: str = "broker", **fields: object) -> Question:
    request: Json = dict(fields)
    return Question("DescribeCluster", request, versions, at)


CONVERSATION = Conversation(
    [
        _describe(),
        _describe(includeClusterAuthorizedOperations=True),
        *(_describe(endpointType=kind) for kind in (0, 1, 2, 3, -1)),
        _describe(includeFencedBrokers=True),
        *(_describe(at=CONTROLLER, endpointType=kind) for kind in (0, 1, 2)),
        _describe(at=CONTROLLER),
    ],
    settings={"broker.rack": "r1"},
)
