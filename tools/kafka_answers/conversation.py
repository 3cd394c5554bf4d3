"""A conversation with a broker: questions of plain JSON, sent one after the other, and the answers made comparable.

Values that differ between brokers are replaced by names, in answers and in questions alike: `id:orders` is the id
of a topic, `dir:0` the path of a log directory, `{version}` the version in which a question is asked.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import Network, NetworkError
from cordwood.wire.message_json import message_from_json, message_to_json
from cordwood.wire.messages import message_class
from cordwood.wire.schema import Request

Json = dict[str, Any]

LATEST: tuple[int, ...] = ()
# Every version that has the fields of the question.
ALL = (-1,)

BROKER, CONTROLLER = "broker", "controller"


@dataclass(frozen=True, slots=True)
class Question:
    api: str
    request: Json
    versions: tuple[int, ...] = LATEST
    # Which listener is asked.
    at: str = BROKER


@dataclass(frozen=True, slots=True)
class Conversation:
    """`settings` are the broker's; `log_dirs` how many directories it has."""

    questions: Sequence[Question]
    settings: dict[str, str] = field(default_factory=dict)
    log_dirs: int = 1
    # Whether the order of structs in the answers means something.
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The broker's address and identity, and the replacements in its answers."""

    host: str
    ports: dict[str, int]
    log_dirs: Sequence[str]


async def converse(
    conversation: Conversation,
    network: Network,
    surroundings: Surroundings,
    settled: Callable[[], Awaitable[None]] | None = None,
) -> list[Json]:
    """Every question with its version and its answer; `closed` for one that cost the connection.

    `settled` is awaited after each answer: Kafka answers before its broker has seen what was changed.
    """
    names = Names(surroundings)
    exchanges: list[Json] = []
    for question in conversation.questions:
        for version in _versions(question):
            message, asked = _message(question, version, names)
            if message is None:
                continue
            channel = await Channel.open(
                network, surroundings.host, surroundings.ports[question.at], client_id="questions"
            )
            try:
                response: Any = await channel.request(message, version)
                answer: Any = names.told(message_to_json(response, version), ordered=conversation.ordered)
            except NetworkError:
                answer = "closed"
            finally:
                channel.close()
            exchange = {"api": question.api, "version": version, "request": asked, "answer": answer}
            exchanges.append(exchange if question.at == BROKER else {**exchange, "at": question.at})
            if settled is not None:
                await settled()
    return exchanges


def _versions(question: Question) -> Sequence[int]:
    stable = _request(question.api).stable_versions
    if question.versions == LATEST:
        return [stable.high]
    return list(stable) if question.versions == ALL else question.versions


def _request(api: str) -> type[Request[Any]]:
    cls: Any = message_class(f"{api}Request")
    return cls  # type: ignore[no-any-return]


def _message(question: Question, version: int, names: Names) -> tuple[Request[Any] | None, Json]:
    """The request, and its JSON as it is kept; None where the version has no such field."""
    asked = json.loads(json.dumps(question.request).replace("{version}", str(version)))
    try:
        return message_from_json(_request(question.api), version, names.meant(asked)), asked
    except ValueError:
        return None, asked


_ID = "id:"
_DIR = "dir:"
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# Fields of which only the sign can be compared.
_SIZES = frozenset(
    {
        "totalBytes",
        "usableBytes",
        "highWatermark",
        "logEndOffset",
        "leaderEpoch",
        "lastFetchTimestamp",
        "lastCaughtUpTimestamp",
        "brokerEpoch",
    }
)


# Kafka's message without information: any better message will do.
_STOCK_SENTENCE = "This most likely occurs because"
SAYS_NOTHING = "says nothing"


class Names:
    """Between what one broker says and what all of them would say."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._texts = {path: f"{_DIR}{index}" for index, path in enumerate(surroundings.log_dirs)}
        self._ports = {port: f"port:{listener}" for listener, port in surroundings.ports.items()}
        self._ids: dict[str, str] = {}

    def meant(self, value: Any) -> Any:
        """A question with this broker's own ids and paths in it."""
        if isinstance(value, dict):
            return {key: self.meant(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.meant(item) for item in value]
        if isinstance(value, str):
            by_name = {name: own for own, name in {**self._ids, **self._texts}.items()}
            return by_name.get(value, value)
        return value

    def told(self, answer: Json, *, ordered: bool) -> Json:
        self._learn(answer)
        told: Json = self._told("", answer, ordered)
        return told

    def _learn(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._learn(item)
        elif isinstance(value, dict):
            topic_id, name = value.get("topicId"), value.get("name") or value.get("topicName")
            if topic_id not in (None, _ZERO_ID) and name and topic_id not in self._ids:
                self._ids[topic_id] = f"{_ID}{name}"
            for item in value.values():
                self._learn(item)

    def _told(self, key: str, value: Any, ordered: bool) -> Any:
        if isinstance(value, dict):
            return {name: self._told(name, item, ordered) for name, item in value.items()}
        if isinstance(value, list):
            told = [self._told(key, item, ordered) for item in value]
            if ordered or not all(isinstance(item, dict) for item in told):
                return told
            return sorted(told, key=_place)
        if isinstance(value, str):
            return self._told_text(key, value)
        if key in _SIZES and isinstance(value, int) and value > 0:
            return "positive"
        return self._ports.get(value, value) if key == "port" else value

    def _told_text(self, key: str, text: str) -> str:
        if key in ("clusterId", "replicaDirectoryId") and text.strip("A"):
            return "known"
        if key == "documentation" and text:
            return "text"
        if key == "errorMessage" and text.startswith(_STOCK_SENTENCE):
            return SAYS_NOTHING
        # Scala's own words.
        text = text.removeprefix("requirement failed: ")
        if text in self._ids:
            return self._ids[text]
        for own, name in self._texts.items():
            text = text.replace(own, name)
        for port, name in self._ports.items():
            text = text.replace(f":{port}", f":{name}")
        return text


def _place(struct: Json) -> tuple[str, ...]:
    """By its names first, so that a difference between two answers stays where it is."""
    named = [str(value) for key, value in struct.items() if key.lower().endswith(("name", "topic", "index", "id"))]
    return (*named, json.dumps(struct, sort_keys=True))
