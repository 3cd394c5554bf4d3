"""Questions about AlterReplicaLogDirs."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Question

from .common import create, create_topics, topic


def _move(*moves: tuple[str, list[tuple[str, list[int]]]], versions: tuple[int, ...] = ()) -> Question:
    dirs = [
        {"path": path, "topics": [{"name": name, "partitions": numbers} for name, numbers in topics]}
        for path, topics in moves
    ]
    return Question("AlterReplicaLogDirs", {"dirs": dirs}, versions)


_LONG = "n" * 249

CONVERSATION = Conversation(
    [
        create("a", 1),
        _move(("dir:0", [("a", [0])])),
        _move(("dir:1", [("a", [0])])),
        _move(("dir:1", [("a", [0])]), versions=ALL),
        _move(("dir:0", [("a", [0])])),
        _move(("/nowhere", [("a", [0])])),
        _move(("relative", [("a", [0])])),
        _move(("", [("a", [0])])),
        _move(("dir:1", [("a", [1]), ("nowhere", [0])])),
        _move(("dir:1", [("a", [-1])])),
        _move(("dir:0", [("a", [0])]), ("dir:1", [("a", [0])])),
        create_topics([topic(_LONG, 1)]),
        _move(("dir:0", [(_LONG, [0])]), ("dir:1", [(_LONG, [0])])),
        _move(("dir:1", [("__cluster_metadata", [0])])),
        _move(),
    ],
    log_dirs=2,
)
