"""Questions about UpdateFeatures."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

_UPGRADE, _SAFE, _UNSAFE = 1, 2, 3


def _update(*features: tuple[str, int, int], validate_only: bool = True) -> Question:
    updates: list[Json] = [
        {"feature": name, "maxVersionLevel": level, "upgradeType": kind} for name, level, kind in features
    ]
    return Question(
        "UpdateFeatures", {"timeoutMs": 30000, "featureUpdates": updates, "validateOnly": validate_only}, ALL
    )


def _update_v0(*features: tuple[str, int, bool]) -> Question:
    updates: list[Json] = [
        {"feature": name, "maxVersionLevel": level, "allowDowngrade": allow} for name, level, allow in features
    ]
    return Question("UpdateFeatures", {"timeoutMs": 30000, "featureUpdates": updates}, (0,))


CONVERSATION = Conversation(
    [
        _update(),
        *(
            _update(("group.version", level, kind))
            for level in (-1, 0, 1, 2)
            for kind in (0, _UPGRADE, _SAFE, _UNSAFE, 4)
        ),
        *(
            _update(("metadata.version", level, kind))
            for level in (0, 6, 7, 20, 29, 30, 31)
            for kind in (_UPGRADE, _SAFE, _UNSAFE)
        ),
        *(_update(("kraft.version", level, kind)) for level in (0, 1, 2) for kind in (_UPGRADE, _SAFE)),
        _update(("no.such.feature", 1, _UPGRADE)),
        _update(("no.such.feature", 0, _UPGRADE)),
        _update(("", 1, _UPGRADE)),
        _update(("group.version", 0, _SAFE), ("no.such.feature", 1, _UPGRADE)),
        _update(("group.version", 0, _SAFE), ("group.version", 1, _UPGRADE)),
        _update(("transaction.version", 0, _SAFE), ("group.version", 0, _SAFE)),
        _update(("eligible.leader.replicas.version", 0, _SAFE)),
        _update(("group.version", 0, _SAFE), validate_only=False),
        _update(("group.version", 1, _UPGRADE), validate_only=False),
        _update_v0(),
        _update_v0(("group.version", 1, False)),
        _update_v0(("group.version", 0, False)),
        _update_v0(("group.version", 0, True), ("transaction.version", 1, True)),
        _update_v0(("group.version", 1, True)),
        _update_v0(("group.version", 2, False)),
    ]
)
