"""The elements of a .proto file as written: types have the names that were written, which `scope` resolves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_FIELD_NUMBER = 2**29 - 1
MAX_ENUM_NUMBER = 2**31 - 1

SCALARS = frozenset(
    [
        "double",
        "float",
        "int32",
        "int64",
        "uint32",
        "uint64",
        "sint32",
        "sint64",
        "fixed32",
        "fixed64",
        "sfixed32",
        "sfixed64",
        "bool",
        "string",
        "bytes",
    ]
)


class Word(NamedTuple):
    """A number, a boolean, or the name of an enum's value."""

    text: str


Aggregate = dict[str, "Value"]
Value = str | Word | Aggregate | list["Value"]
"""The value of an option. `str` is a string literal."""


class Option(NamedTuple):
    name: str
    """With parentheses around extensions: (confluent.field_meta).doc"""
    value: Value


class MapType(NamedTuple):
    key: str
    value: str


@dataclass(slots=True)
class Field:
    label: str
    """optional, required, repeated, or nothing."""
    type: str | MapType
    name: str
    number: int
    options: list[Option] = field(default_factory=list)
    group: Message | None = None
    """The message of a group, which is field and type at once."""


@dataclass(slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


class Numbers(NamedTuple):
    """From `first` to `last`, both included."""

    first: int
    last: int


@dataclass(slots=True)
class Extensions:
    ranges: list[Numbers]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    type: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class EnumValue:
    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Enum:
    name: str
    values: list[EnumValue] = field(default_factory=list)
    reserved: list[list[Numbers | str]] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    reserved: list[list[Numbers | str]] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    def all_fields(self) -> Iterator[tuple[Field, OneOf | None]]:
        for each in self.fields:
            yield each, None
        for oneof in self.oneofs:
            for each in oneof.fields:
                yield each, oneof

    def all_messages(self) -> Iterator[Message]:
        """Those within it, with those of groups."""
        yield from self.messages
        for each, _ in self.all_fields():
            if each.group is not None:
                yield each.group


@dataclass(slots=True)
class Rpc:
    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class File:
    syntax: str | None = None
    """proto2 or proto3."""
    edition: str | None = None
    package: str = ""
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
