"""Questions about requests that leave the broker no time: nothing is done."""

from __future__ import annotations

from kafka_answers.conversation import Conversation, Json, Question

from .common import create, look_at, topic


def _hurried(timeout_ms: int) -> list[Question]:
    requests: dict[str, Json] = {
        "CreateTopics": {"topics": [topic("new", 1)], "validateOnly": False},
        "CreatePartitions": {"topics": [{"name": "t", "count": 2, "assignments": None}], "validateOnly": False},
        "ElectLeaders": {"topicPartitions": [{"topic": "t", "partitions": [0]}], "electionType": 0},
        "DeleteTopics": {"topics": [{"name": "t"}]},
        "UpdateFeatures": {
            "featureUpdates": [{"feature": "group.version", "maxVersionLevel": 1, "upgradeType": 1}],
            "validateOnly": False,
        },
    }
    return [Question(api, {**request, "timeoutMs": timeout_ms}) for api, request in requests.items()]


CONVERSATION = Conversation([create("t"), *_hurried(0), *_hurried(-1), look_at()])
