"""Questions about DeleteTopicsDisabled."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import UNKNOWN_ID, create, look_at

CONVERSATION = Conversation(
    [
        create("kept"),
        Question("DeleteTopics", {"topicNames": ["kept", "nowhere"], "timeoutMs": 30000}, ALL),
        Question(
            "DeleteTopics",
            {"topics": [{"name": "kept"}, {"name": None, "topicId": UNKNOWN_ID}], "timeoutMs": 30000},
        ),
        look_at(),
    ],
    settings={"delete.topic.enable": "false"},
)
