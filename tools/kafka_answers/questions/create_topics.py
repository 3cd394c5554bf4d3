"""Questions about CreateTopics."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation

from .common import TOPIC, create, create_topics, describe_configs, look_at, topic

_LONGEST = "n" * 249

_BAD_ASSIGNMENTS: list[list[tuple[int, list[int]]]] = [
    [(0, [1]), (2, [1])],
    [(1, [1])],
    [(-1, [1])],
    [(0, [1]), (0, [1])],
    [(0, [])],
    [(0, [1, 1])],
    [(0, [1, 2])],
    [(0, [7])],
    [(0, [-1])],
    [(0, [1]), (1, [])],
    [(0, [1]), (1, [1, 2])],
]
_BAD_CONFIGS: list[dict[str, str | None]] = [
    {"no.such.key": "1"},
    {"retention.ms": "soon"},
    {"retention.ms": "-2"},
    {"retention.ms": ""},
    {"retention.ms": None},
    {"cleanup.policy": "shred"},
    {"cleanup.policy": None, "retention.ms": None},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"min.insync.replicas": "0"},
    {"segment.bytes": "10"},
    {"remote.storage.enable": "true"},
]

CONVERSATION = Conversation(
    settings={"num.partitions": "2"},
    questions=[
        create_topics([topic("version-{version}", 2, 1)], versions=ALL),
        create_topics([topic("nothing-but-a-name")]),
        create_topics([topic("several-0", 3, 1), topic("several-1", 1, 1)]),
        create_topics([]),
        create_topics([topic("configured", 1, configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"})]),
        describe_configs((TOPIC, "configured", ["retention.ms", "cleanup.policy"])),
        # Names
        *(
            create_topics([topic(name, 1, 1)])
            for name in ("", ".", "..", "...", "a b", "ü", "a/b", _LONGEST, _LONGEST + "n", "__cluster_metadata")
        ),
        create_topics([topic("twice", 1), topic("twice", 1), topic("once", 1)]),
        create_topics([topic("a.b", 1)]),
        create_topics([topic("a_b", 1)]),
        create_topics([topic("c.d", 1), topic("c_d", 1)]),
        create_topics([topic("a.b", 1)]),
        # Numbers
        *(create_topics([topic("number", partitions, 1)]) for partitions in (0, -2, 10_001)),
        create_topics([topic("half", 5_001, 1), topic("other-half", 5_000, 1)]),
        *(create_topics([topic("number", 1, factor)]) for factor in (0, -2, 2, 32767)),
        create_topics([topic("number", 0, 0)]),
        # Nothing is created that is only to be checked
        create_topics([topic("checked", 4, 1, configs={"retention.ms": "5"})], validate_only=True, versions=ALL),
        create_topics([topic("checked", 4, 3)], validate_only=True),
        create_topics([topic("a.b", 1)], validate_only=True),
        look_at("checked"),
        # Assignments
        create_topics([topic("assigned", assignments=[(0, [1]), (1, [1])])]),
        create_topics([topic("assigned-in-any-order", assignments=[(1, [1]), (0, [1])])]),
        *(create_topics([topic("refused", assignments=assignments)]) for assignments in _BAD_ASSIGNMENTS),
        create_topics([topic("refused", 1, -1, assignments=[(0, [1])])]),
        create_topics([topic("refused", -1, 1, assignments=[(0, [1])])]),
        create_topics([topic("refused", 1, 1, assignments=[(0, [1])])]),
        create_topics([topic("assigned", assignments=[(0, [7])])]),
        # Configuration
        *(create_topics([topic("refused", 1, 1, configs=configs)]) for configs in _BAD_CONFIGS),
        create_topics([topic("min-isr", 1, 1, configs={"min.insync.replicas": "3"})]),
        create_topics([topic("empty-policy", 1, 1, configs={"cleanup.policy": ""})]),
        # A bad one beside a good one
        create_topics([topic("good", 1, 1), topic("b a d", 1, 1)]),
        create("good"),
        look_at(),
    ],
)
