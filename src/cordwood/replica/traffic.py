"""Bytes and records written to and read from the partitions of a topic. Counted only with metrics on.

Messages are counted by their offsets, as Kafka does for `MessagesInPerSec`. So the markers of transactions count, and
so do offsets that compaction has emptied.
"""

from __future__ import annotations


class TopicTraffic:
    """Counters of one topic's partitions on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "messages_in", "messages_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.messages_out = 0
