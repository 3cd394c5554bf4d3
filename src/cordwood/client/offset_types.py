"""Offsets in the application's view."""

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    """The leader epoch of the last record read; lets brokers detect that it was truncated since (KIP-320)."""


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None
