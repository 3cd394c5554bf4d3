"""Questions about log directories that take no new replicas (KIP-1066)."""

from __future__ import annotations

from kafka_answers.conversation import Conversation, Question

from .common import BROKER, create, create_topics, describe_configs, topic
from .incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT, alter


def _cordon(value: str | None, operation: int = SET, broker: str = "1") -> Question:
    return alter((BROKER, broker, [("cordoned.log.dirs", operation, value)]))


def _move(path: str, name: str) -> Question:
    return Question("AlterReplicaLogDirs", {"dirs": [{"path": path, "topics": [{"name": name, "partitions": [0]}]}]})


# Which of two empty directories a partition goes to is chance: `first` is not looked at.
_DESCRIBE = Question(
    "DescribeLogDirs",
    {
        "topics": [
            {"topic": "second", "partitions": [0, 1, 2]},
            {"topic": "assigned", "partitions": [0]},
            {"topic": "fourth", "partitions": [0]},
        ]
    },
)

CONVERSATION = Conversation(
    [
        create("first", 2),
        _cordon("/nowhere"),
        _cordon("dir:1", broker=""),
        _cordon("dir:1"),
        describe_configs((BROKER, "1", ["cordoned.log.dirs"])),
        _DESCRIBE,
        create("second", 3),
        _DESCRIBE,
        _move("dir:1", "second"),
        _cordon("dir:0", APPEND),
        _DESCRIBE,
        create("third", 1),
        create_topics([topic("assigned", assignments=[(0, [1])])]),
        Question(
            "CreatePartitions",
            {"topics": [{"name": "first", "count": 3, "assignments": None}], "timeoutMs": 30000, "validateOnly": False},
        ),
        _cordon("dir:0", SUBTRACT),
        create("fourth", 1),
        _cordon("*"),
        _DESCRIBE,
        create("fifth", 1),
        _cordon(None, DELETE),
        _DESCRIBE,
        create("sixth", 1),
    ],
    log_dirs=2,
)
