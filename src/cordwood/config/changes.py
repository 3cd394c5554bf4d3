"""What is asked for by AlterConfigs and IncrementalAlterConfigs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from cordwood.wire.errors import ErrorCode


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    # To and from a list.
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    name: str
    # As it came: it may be no Operation.
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Resource:
    # As it came: it may be no ResourceType.
    type: int
    # Of a broker: its id, or "" for all brokers.
    name: str


@dataclass(frozen=True, slots=True)
class Altered:
    """The change holds."""

    settings: Mapping[str, str]
    # What the metadata log has to be told: a ConfigRecord each; None takes the key away.
    records: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    code: ErrorCode
    message: str
