"""Questions about ListGroups and DeleteGroups, with groups that have no members."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create


def _commit(group: str) -> Question:
    partitions: list[Json] = [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]
    return Question("OffsetCommit", {"groupId": group, "topics": [{"name": "orders", "partitions": partitions}]}, (9,))


def _list(**filters: list[str]) -> Question:
    return Question("ListGroups", dict(filters), ALL)


def _delete(*names: str, versions: tuple[int, ...] = ALL) -> Question:
    return Question("DeleteGroups", {"groupsNames": list(names)}, versions)


CONVERSATION = Conversation(
    [
        create("__consumer_offsets", 50),
        create("orders", 1),
        _list(),
        *(_commit(name) for name in ("a", "b", "c-{version}", "", "with space")),
        _list(),
        *(
            _list(statesFilter=states)
            for states in (["Empty"], ["empty"], ["EMPTY"], ["Stable"], ["Stable", "Empty"], ["NoSuchState"], [""])
        ),
        *(
            _list(typesFilter=types)
            for types in (
                ["classic"],
                ["CLASSIC"],
                ["consumer"],
                ["consumer", "classic"],
                ["share"],
                ["nosuchtype"],
                ["unknown"],
                [""],
            )
        ),
        _list(statesFilter=["Empty"], typesFilter=["classic"]),
        _list(statesFilter=["Stable"], typesFilter=["classic"]),
        _delete("nobody"),
        _delete(),
        _delete("a", "nobody", "a", versions=()),
        _delete("", versions=()),
        _list(),
        Question("OffsetFetch", {"groups": [{"groupId": "a", "topics": None}]}, (9,)),
        _delete("b", "with space", "c-9", versions=(0,)),
        _list(),
    ]
)
