"""Questions about committed offsets of groups without members: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import UNKNOWN_ID, create, delete

_LARGEST_METADATA = 4096


def _commit(
    group: str,
    topics: dict[str, list[tuple[int, int, str | None]]],
    versions: tuple[int, ...] = ALL,
    **about: str | int | None,
) -> list[Question]:
    """Topics by name, and by id where the version has those. The committed metadata has the version of the commit."""

    def asked(field: str, prefix: str) -> Json:
        return {
            "groupId": group,
            **about,
            "topics": [
                {
                    field: name if name.startswith(("id:", UNKNOWN_ID)) else f"{prefix}{name}",
                    "partitions": [
                        {"partitionIndex": index, "committedOffset": offset, "committedMetadata": metadata}
                        for index, offset, metadata in partitions
                    ],
                }
                for name, partitions in topics.items()
            ],
        }

    return [
        Question("OffsetCommit", asked("name", ""), versions),
        Question("OffsetCommit", asked("topicId", "id:"), versions),
    ]


def _fetch(
    group: str,
    topics: dict[str, list[int]] | None,
    versions: tuple[int, ...] = ALL,
    **about: str | int | bool | None,
) -> list[Question]:
    """In the form of one group, in that of many, and in that with ids of topics."""

    def asked(field: str, prefix: str) -> list[Json] | None:
        if topics is None:
            return None
        return [
            {
                field: name if name.startswith(("id:", UNKNOWN_ID)) else f"{prefix}{name}",
                "partitionIndexes": indexes,
            }
            for name, indexes in topics.items()
        ]

    # The first version has no way to ask for all topics.
    of_one_group = tuple(range(2, 8)) if topics is None and versions == ALL else versions
    stable: Json = {name: about.pop(name) for name in ("requireStable",) if name in about}
    return [
        Question("OffsetFetch", {"groupId": group, "topics": asked("name", ""), **about, **stable}, of_one_group),
        Question(
            "OffsetFetch", {"groups": [{"groupId": group, "topics": asked("name", ""), **about}], **stable}, versions
        ),
        Question(
            "OffsetFetch",
            {"groups": [{"groupId": group, "topics": asked("topicId", "id:"), **about}], **stable},
            versions,
        ),
    ]


def _delete(group: str, topics: dict[str, list[int]]) -> Question:
    return Question(
        "OffsetDelete",
        {
            "groupId": group,
            "topics": [
                {"name": name, "partitions": [{"partitionIndex": index} for index in indexes]}
                for name, indexes in topics.items()
            ],
        },
    )


CONVERSATION = Conversation(
    [
        create("__consumer_offsets", 50),
        create("orders", 3),
        create("gone", 2),
        # Nothing is there yet.
        *_fetch("readers", None),
        *_fetch("readers", {"orders": [0, 7], "nowhere": [0]}),
        *_fetch("readers", {UNKNOWN_ID: [0]}, (10,)),
        *_fetch("readers", {}),
        *_fetch("readers", {"orders": []}),
        _delete("readers", {"orders": [0]}),
        # Commits.
        *_commit("readers", {"orders": [(0, 11, "as of {version}"), (1, 12, None)]}),
        *_fetch("readers", {"orders": [0, 1, 2]}),
        *_fetch("readers", None),
        *_commit("readers", {"orders": [(2, 13, ""), (3, 1, ""), (-1, 1, "")], "nowhere": [(0, 5, "")]}),
        *_commit("readers", {UNKNOWN_ID: [(0, 1, "")], "orders": [(0, 14, "")]}, (10,)),
        *_commit("readers", {"nowhere": [(0, 5, "")]}),
        *_commit("readers", {"orders": [(0, -1, "before the start"), (1, -5, "")]}),
        *_fetch("readers", {"orders": [0, 1, 2]}, (7, 9, 10)),
        *_commit(
            "readers",
            {"orders": [(0, 20, "m" * _LARGEST_METADATA), (1, 21, "m" * (_LARGEST_METADATA + 1))]},
            (9, 10),
        ),
        *_commit("readers", {"orders": [(0, 20, "é" * _LARGEST_METADATA)]}, (9, 10)),
        *_fetch("readers", {"orders": [1]}),
        *_commit("readers", {"orders": [(0, 22, ""), (0, 23, "twice")]}),
        *_commit("readers", {}),
        *_commit("nobody", {}),
        *_commit("readers", {"orders": []}),
        *_commit("readers", {"gone": [(0, 1, ""), (1, 2, "")], "orders": [(0, 24, "")]}),
        *_fetch("readers", None),
        *_fetch("readers", None, requireStable=True),
        # Committers.
        *_commit("readers", {"orders": [(0, 30, "")]}, memberId="someone"),
        *_commit("readers", {"orders": [(0, 31, "")]}, generationIdOrMemberEpoch=1),
        *_commit("readers", {"orders": [(0, 32, "")]}, generationIdOrMemberEpoch=1, memberId="someone"),
        *_commit("readers", {"orders": [(0, 33, "")]}, generationIdOrMemberEpoch=0),
        *_commit("readers", {"orders": [(0, 34, "")]}, generationIdOrMemberEpoch=-2),
        *_commit("readers", {"orders": [(0, 35, "")]}, groupInstanceId="static"),
        *_commit("strangers", {"orders": [(0, 36, "")]}, generationIdOrMemberEpoch=1, memberId="someone"),
        *_commit("strangers", {"orders": [(0, 37, "")]}, generationIdOrMemberEpoch=0),
        *_commit("strangers", {"nowhere": [(0, 37, "")]}, generationIdOrMemberEpoch=0),
        *_commit("more-strangers", {"orders": [(0, 38, "")]}, memberId="someone"),
        *_fetch("strangers", None),
        *_fetch("more-strangers", None),
        *_fetch("readers", None, memberId="someone", memberEpoch=3),
        *_fetch("readers", None, memberId="someone"),
        *_fetch("readers", None, memberEpoch=3),
        *_commit("", {"orders": [(0, 39, "of nobody")]}),
        *_fetch("", None),
        # More than one group.
        Question(
            "OffsetFetch",
            {
                "groups": [
                    {"groupId": "readers", "topics": None},
                    {"groupId": "", "topics": [{"name": "orders", "partitionIndexes": [0]}]},
                    {"groupId": "nobody", "topics": [{"name": "orders", "partitionIndexes": [0]}]},
                    {"groupId": "readers", "topics": [{"name": "orders", "partitionIndexes": [1]}]},
                ]
            },
            (8, 9),
        ),
        Question("OffsetFetch", {"groups": []}, ALL),
        # Deletions.
        _delete("readers", {"orders": [1, 7], "nowhere": [0]}),
        _delete("readers", {"nowhere": [0]}),
        _delete("readers", {}),
        _delete("nobody", {"orders": [0]}),
        _delete("", {"orders": [0]}),
        *_fetch("readers", None, (7, 9)),
        delete("gone"),
        *_fetch("readers", None, (7, 9, 10)),
        *_fetch("readers", {"gone": [0]}, (7, 9, 10)),
        _delete("readers", {"gone": [0]}),
    ]
)
