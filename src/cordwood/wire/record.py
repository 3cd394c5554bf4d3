"""Records as values, and the two kinds of invalid batches."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

NO_TIMESTAMP = -1


class CorruptBatch(Exception):
    """The framing or checksum of a batch is wrong: Kafka's CORRUPT_MESSAGE."""


class InvalidRecord(Exception):
    """A batch arrived intact, but its contents are invalid: Kafka's INVALID_RECORD."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP_TYPE = -1
"""The timestamp type of records written before records had timestamps."""


class ConsumerRecord(NamedTuple):
    """A record as returned by a consumer; key and value are bytes unless deserializers changed them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: int = CREATE_TIME
    leader_epoch: int = -1


class RecordScan(NamedTuple):
    """Properties of a batch's records that a leader checks before it appends them."""

    max_timestamp: int
    """The largest timestamp of the records, or -1 if none has one."""
    missing_keys: list[int]
    """Indexes of the records without a key, if keys are required."""
    bad_timestamps: list[tuple[int, int]]
    """Index and timestamp of the records out of the allowed range; records without a timestamp are exempt."""
    consecutive: bool
    """The offset deltas are exactly 0, 1, 2, …"""
