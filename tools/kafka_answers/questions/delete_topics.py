"""Questions about DeleteTopics."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import TOPIC, UNKNOWN_ID, create, create_topics, delete, describe_configs, look_at, topic


def _delete(*topics: Json) -> Question:
    return Question("DeleteTopics", {"topics": list(topics), "timeoutMs": 30000})


def _delete_by_name(*names: str) -> Question:
    return Question("DeleteTopics", {"topicNames": list(names), "timeoutMs": 30000}, ALL)


CONVERSATION = Conversation(
    [
        create_topics([topic(f"by-name-{version}", 1) for version in range(1, 6)]),
        _delete_by_name("by-name-{version}"),
        _delete_by_name("by-name-1"),
        _delete_by_name("by-name-1", "by-name-1"),
        _delete_by_name(),
        create_topics([topic(name, 2) for name in ("a", "b", "c", "d", "e", "f")]),
        _delete({"name": "a"}),
        _delete({"topicId": "id:b", "name": None}),
        _delete({"topicId": "id:b", "name": None}),
        _delete({"topicId": UNKNOWN_ID, "name": None}),
        _delete({"name": "nowhere"}),
        _delete({"name": None}),
        _delete({"name": "c", "topicId": "id:c"}),
        _delete({"name": "c"}, {"name": "c"}),
        _delete({"topicId": "id:c", "name": None}, {"topicId": "id:c", "name": None}),
        _delete({"topicId": UNKNOWN_ID, "name": None}, {"topicId": UNKNOWN_ID, "name": None}),
        _delete({"name": "nowhere"}, {"name": "nowhere"}),
        _delete({"name": "d"}, {"topicId": "id:d", "name": None}),
        _delete({"name": "e"}, {"name": "nowhere"}, {"topicId": UNKNOWN_ID, "name": None}, {"name": None}),
        _delete({"name": None}, {"name": None}),
        _delete(),
        _delete({"name": ""}),
        _delete({"name": "__cluster_metadata"}),
        look_at(),
        # Its configuration goes with a topic.
        create("again", configs={"retention.ms": "1000"}),
        delete("again"),
        create("again"),
        describe_configs((TOPIC, "again", ["retention.ms"])),
        look_at(),
    ]
)
