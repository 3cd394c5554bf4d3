"""Questions about ListConfigResources."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import BROKER, CLIENT_METRICS, GROUP, TOPIC, create
from .incremental_alter_configs import SET, alter


def _list(types: list[int] | None) -> Question:
    return Question("ListConfigResources", {} if types is None else {"resourceTypes": types}, ALL)


CONVERSATION = Conversation(
    [
        _list(None),
        create("plain"),
        create("configured", configs={"retention.ms": "1000"}),
        alter((GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])),
        alter((CLIENT_METRICS, "m", [("interval.ms", SET, "1000")])),
        alter((BROKER, "1", [("background.threads", SET, "11")])),
        alter((BROKER, "", [("log.retention.ms", SET, "11111111")])),
        _list(None),
        _list([]),
        *(_list([kind]) for kind in (0, 1, 2, 4, 8, 16, 32, 64, -1)),
        _list([TOPIC, GROUP]),
        _list([TOPIC, TOPIC]),
        _list([TOPIC, 7]),
    ]
)
