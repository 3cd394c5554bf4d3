"""Requested changes of AlterConfigs and IncrementalAlterConfigs, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    # To and from a list.
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    # As it came: it may be no Operation.
    operation: int
    value: str | None


class Resource(NamedTuple):
    # As it came: it may be no ResourceType.
    type: int
    # Of a broker: its id, or "" for all brokers.
    name: str


class Altered(NamedTuple):
    """The change holds."""

    settings: Mapping[str, str]
    # What the metadata log has to be told: a ConfigRecord each; None takes the key away.
    records: tuple[tuple[str, str | None], ...]
