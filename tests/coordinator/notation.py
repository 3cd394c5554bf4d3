"""The notation of messages in transcripts.

    group_id=g session_timeout_ms=10000 protocols=[{name: range, metadata: subscription(orders)}]

Fields by their names, those with default values left out; errors by their names; bytes as text where they are text, in
hex (0x…) otherwise. `$a` stands for the member id that client a was given last, `$topic.orders` for a topic's id.
`subscription(…)`, `assignment(…)` and `batch(…)` make the bytes that consumers and producers send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cordwood.wire.codec import decode, encode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.data.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from cordwood.wire.messages.data.consumer_protocol_assignment import TopicPartition as AssignedTopic
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.data.consumer_protocol_subscription import TopicPartition as OwnedTopic
from cordwood.wire.primitives import ZERO_UUID, uuid_text
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from cordwood.wire.schema import Field, Struct, StructType

_TOKEN = re.compile(r'\s*(?:(?P<quoted>"[^"]*")|(?P<mark>[\[\]{}(),=:])|(?P<word>[^\s\[\]{}(),=:"]+))')
_HEX = re.compile(r"0x([0-9a-f]{2})*$")

Names = Mapping[str, Any]


class NotationError(Exception):
    pass


# Reading


def parse_fields(text: str, names: Names) -> dict[str, Any]:
    """`name=value name=value …`; `names` are what `$…` may stand for."""
    reader = _Reader(text, names)
    fields = {}
    while not reader.at_end:
        name = reader.word()
        reader.expect("=")
        fields[name] = reader.value()
    return fields


def build(cls: StructType, values: Mapping[str, Any]) -> Any:
    fields = {field.name: field for field in cls.fields}
    unknown = values.keys() - fields.keys()
    if unknown:
        raise NotationError(f"{cls.__name__} has no {', '.join(sorted(unknown))}; it has {', '.join(fields)}")
    return cls(**{name: _built(fields[name], value) for name, value in values.items()})


def _built(field: Field, value: Any) -> Any:
    if value is None:
        return None
    match field.kind.name:
        case "array":
            return [_element(field.element, item) for item in value]
        case "struct":
            return _element(field.element, value)
        case _:
            return _scalar(field.kind.name, value)


def _element(element: Any, value: Any) -> Any:
    if isinstance(element, StructType):
        return build(element, value)
    return _scalar(element.name, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind in ("bytes", "records") and isinstance(value, str):
        return bytes.fromhex(value[2:]) if _HEX.match(value) else value.encode()
    if kind == "string" and not isinstance(value, str):
        return str(value)
    return value


class _Reader:
    def __init__(self, text: str, names: Names) -> None:
        self._names = names
        self._tokens: list[tuple[str, str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise NotationError(f"cannot be read from here on: {text[position:]}")
            kind = found.lastgroup or ""
            self._tokens.append((kind, found.group(kind)))
            position = found.end()
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def _take(self) -> tuple[str, str]:
        if self.at_end:
            raise NotationError("there should be more")
        self._next += 1
        return self._tokens[self._next - 1]

    def _is_next(self, mark: str) -> bool:
        return not self.at_end and self._tokens[self._next] == ("mark", mark)

    def expect(self, mark: str) -> None:
        token = self._take()
        if token != ("mark", mark):
            raise NotationError(f"{token[1]} where {mark} should be")

    def word(self) -> str:
        kind, text = self._take()
        if kind != "word":
            raise NotationError(f"{text} where a name should be")
        return text

    def value(self) -> Any:
        kind, text = self._take()
        if kind == "quoted":
            return text[1:-1]
        if kind == "mark":
            if text == "[":
                return self._items("]", self.value)
            if text == "{":
                return dict(self._items("}", self._entry))
            raise NotationError(f"{text} where a value should be")
        if self._is_next("("):
            self._take()
            return self._call(text)
        return self._said(text)

    def _said(self, word: str) -> Any:
        if word.startswith("$"):
            if word[1:] not in self._names:
                raise NotationError(f"nothing is called {word} yet; there is {', '.join(self._names)}")
            return self._names[word[1:]]
        if word in ("true", "false"):
            return word == "true"
        if word == "null":
            return None
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        return word

    def _items(self, end: str, read: Callable[[], Any]) -> list[Any]:
        items = []
        while not self._is_next(end):
            items.append(read())
            if self._is_next(","):
                self._take()
        self._take()
        return items

    def _entry(self) -> tuple[str, Any]:
        name = self.word()
        self.expect(":")
        return name, self.value()

    def _call(self, name: str) -> Any:
        arguments = []
        options = {}
        while not self._is_next(")"):
            value = self.value()
            if self._is_next("="):
                self._take()
                options[str(value)] = self.value()
            else:
                arguments.append(value)
            if self._is_next(","):
                self._take()
        self._take()
        return _FUNCTIONS[name](*arguments, **options)


def _subscription(*topics: str, version: int = 3, user_data: str | None = None, **options: Any) -> bytes:
    """`owned={orders: [0, 1]}`, `generation=2`, `rack=r1`."""
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=None if user_data is None else user_data.encode(),
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=partitions) for topic, partitions in options.pop("owned", {}).items()
        ],
        generation_id=options.pop("generation", -1),
        rack_id=options.pop("rack", None),
    )
    assert not options, options
    return version.to_bytes(2) + encode(message, version)


def _assignment(version: int = 3, **partitions: list[int]) -> bytes:
    """`assignment(orders=[0, 1])`."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in partitions.items()],
        user_data=None,
    )
    return version.to_bytes(2) + encode(message, version)


def _batch(*values: str, id: int = -1, epoch: int = -1, sequence: int = -1, transactional: bool = True) -> bytes:
    """`batch(a, b, id=0, epoch=0, sequence=0)`: of a transaction unless it says otherwise."""
    records = [Record(offset, 1_700_000_000_000, None, str(value).encode(), ()) for offset, value in enumerate(values)]
    return bytes(
        encode_batch(records, producer_id=id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    )


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "subscription": _subscription,
    "assignment": _assignment,
    "batch": _batch,
}


# Writing


def show(message: Struct, aliases: Mapping[Any, str], *, hidden: frozenset[str] = frozenset()) -> str:
    """`aliases` are written in the place of the values that they stand for."""
    return " ".join(f"{name}={value}" for name, value in _shown_fields(message, aliases, hidden))


def _shown_fields(message: Struct, aliases: Mapping[Any, str], hidden: frozenset[str]) -> list[tuple[str, str]]:
    shown = []
    for field in type(message).fields:
        value = getattr(message, field.name)
        if field.name in hidden or value == field.new_default() or (value == [] and field.kind.name == "array"):
            continue
        shown.append((field.name, _shown(field.name, value, aliases, hidden)))
    return shown


def _shown(name: str, value: Any, aliases: Mapping[Any, str], hidden: frozenset[str]) -> str:
    if isinstance(value, Struct):
        return "{" + ", ".join(f"{name}: {text}" for name, text in _shown_fields(value, aliases, hidden)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown("", item, aliases, hidden) for item in value) + "]"
    if name == "error_code":
        return ErrorCode(value).name
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        alias = aliases.get(value)
        return f"${alias}" if alias is not None else value if re.fullmatch(r"[\w./-]+", value) else f'"{value}"'
    if isinstance(value, bytes | bytearray | memoryview):
        return _shown_bytes(name, bytes(value), aliases)
    return str(value)


def _shown_bytes(name: str, value: bytes, aliases: Mapping[Any, str]) -> str:
    if len(value) == 16:
        if value in aliases:
            return f"${aliases[value]}"
        return "none" if value == ZERO_UUID else uuid_text(value)
    # The bytes of one may read as the other.
    for shown in (_shown_assignment,) if name == "assignment" else (_shown_subscription, _shown_assignment):
        found = shown(value)
        if found is not None:
            return found
    if value and all(32 <= byte < 127 for byte in value):
        text = value.decode()
        return text if re.fullmatch(r"[\w./-]+", text) else f'"{text}"'
    return f"0x{value.hex()}" if value else '""'


def _shown_subscription(value: bytes) -> str | None:
    message = _decoded(ConsumerProtocolSubscription, value)
    if message is None or not message.topics:
        return None
    said = list(message.topics)
    if message.owned_partitions:
        owned = ", ".join(f"{topic.topic}: {topic.partitions}" for topic in message.owned_partitions)
        said.append(f"owned={{{owned}}}")
    if message.generation_id != -1:
        said.append(f"generation={message.generation_id}")
    return f"subscription({', '.join(said)})"


def _shown_assignment(value: bytes) -> str | None:
    message = _decoded(ConsumerProtocolAssignment, value)
    if message is None:
        return None
    return f"assignment({', '.join(f'{topic.topic}={topic.partitions}' for topic in message.assigned_partitions)})"


def _decoded(cls: Any, value: bytes) -> Any:
    """None unless the bytes are exactly that."""
    version = int.from_bytes(value[:2]) if len(value) >= 6 else -1
    if version not in cls.versions:
        return None
    try:
        message = decode(cls, version, value[2:])
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is something else
        return None
    return message if encode(message, version) == value[2:] else None
