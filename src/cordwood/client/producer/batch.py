"""A batch on its way: records of one partition that are sent, acknowledged and completed together."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.producer.identity import ProducerIdentity

Headers = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Where a record is now."""

    topic: str
    partition: int
    offset: int
    """-1 with acks=0, or where the broker knows only that it has it already."""
    timestamp: int
    """Milliseconds: the broker's with LogAppendTime, else the record's own."""
    serialized_key_size: int
    serialized_value_size: int


class ProducerBatch:
    """Grows until `close`, is encoded once for each identity and sequence it is sent with, and is completed once.

    Owned by the accumulator until it is drained, by the sender from then on. `base_sequence` and `identity` are the
    sender's: set when it is first drained, and kept through retries.
    """

    partition: TopicPartition
    created_s: float
    attempts: int
    identity: ProducerIdentity | None
    base_sequence: int

    @property
    def record_count(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """What it holds of the buffer pool, or will take in a request at most; before compression."""

    def encode(self, *, transactional: bool) -> bytes | bytearray:
        """The record batch as it goes into a request, with its identity and sequence. Closed from then on."""

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Every record has its metadata; -1 where the broker did not say. Once: either this or `fail`."""

    def fail(self, error: ClientError, record_errors: Mapping[int, ClientError] | None = None) -> None:
        """`record_errors` has those that are one record's own, by its place in the batch."""

    def on_done(self, callback: Callable[["ProducerBatch"], None]) -> None:
        """Called once when it is completed or failed, at once if it is."""

    def split(self) -> "list[ProducerBatch]":
        """Two or more that hold its records in order and complete them in its place. One record cannot be split."""
