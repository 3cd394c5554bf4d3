"""Requested changes of AlterConfigs and IncrementalAlterConfigs, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    # Add to and remove from a list.
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    # As received: may be an unknown operation.
    operation: int
    value: str | None


class Resource(NamedTuple):
    # As received: may be an unknown ResourceType.
    type: int
    # For a broker: its id, or "" for all brokers.
    name: str


class Altered(NamedTuple):
    """The change was made."""

    settings: Mapping[str, str]
    # The ConfigRecords for the metadata log; None removes a key.
    records: tuple[tuple[str, str | None], ...]
