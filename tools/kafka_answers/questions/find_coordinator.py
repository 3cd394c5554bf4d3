"""Questions about FindCoordinator. The topics of coordinators are created first: Kafka answers the first to ask that
there is no coordinator yet, and a node creates them while it is asked."""

from __future__ import annotations

from kafka_answers.conversation import ALL, Conversation, Json, Question

from .common import create

GROUP, TRANSACTION, SHARE, NONE_SUCH = 0, 1, 2, 3
_SHARE_KEY = "readers:AAECAwQFRgeICQoLDA0ODw:3"


def _find(kind: int | None, *keys: str, versions: tuple[int, ...] = ALL) -> list[Question]:
    """In the form of one key, where there is one key, and in that of many."""
    about: Json = {} if kind is None else {"keyType": kind}
    questions = [Question("FindCoordinator", {**about, "coordinatorKeys": list(keys)}, versions)]
    if len(keys) == 1:
        questions.insert(0, Question("FindCoordinator", {**about, "key": keys[0]}, versions))
    return questions


CONVERSATION = Conversation(
    [
        create("__consumer_offsets", 50),
        create("__transaction_state", 50),
        create("__share_group_state", 50),
        *_find(None, "readers"),
        *_find(GROUP, "readers"),
        *_find(TRANSACTION, "writer"),
        *_find(SHARE, _SHARE_KEY),
        *_find(NONE_SUCH, "readers"),
        *_find(-1, "readers"),
        *_find(GROUP, ""),
        *_find(TRANSACTION, ""),
        *_find(SHARE, ""),
        *_find(SHARE, "readers"),
        *_find(SHARE, "readers:no-id:3"),
        *_find(SHARE, "readers:AAECAwQFRgeICQoLDA0ODw:many"),
        *_find(SHARE, ":AAECAwQFRgeICQoLDA0ODw:1"),
        *_find(SHARE, "a:b:AAECAwQFRgeICQoLDA0ODw:1"),
        *_find(GROUP),
        *_find(TRANSACTION),
        *_find(GROUP, "one", "two", "one", ""),
        *_find(SHARE, _SHARE_KEY, "wrong"),
    ],
    ordered=True,
)
