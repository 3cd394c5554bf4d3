"""Settings of a producer; Kafka's names in Python's spelling, and Kafka's defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.settings import Settings

Serializer = Callable[[Any], bytes | None]
"""A key or value as the application has it, to bytes. Without one, bytes, str (UTF-8) and None are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(Settings):
    key_serializer: Serializer | None = None
    """A callable that makes bytes of a key. Without one, bytes, str (UTF-8) and None are taken."""
    value_serializer: Serializer | None = None
    """A callable that makes bytes of a value. Without one, bytes, str (UTF-8) and None are taken."""
    acks: int = -1
    """0: nobody answers; 1: the leader has it; -1 (or "all"): all in-sync replicas have it."""
    enable_idempotence: bool = True
    """Each record is written once and in order, whatever is retried. Needs acks=all; a producer that sets other acks
    without asking for this goes without it."""
    compression_type: str = "none"
    """none, gzip, snappy, lz4 or zstd."""
    compression_level: int | None = None
    """None is the codec's own default (`compression.gzip.level` and its like)."""
    batch_size: int = 16_384
    """Bytes of records of one partition that are gathered before they are sent."""
    linger_ms: int = 5
    """Time for which a batch that is not full waits for more records."""
    buffer_memory: int = 33_554_432
    """Bytes of records that may wait to be sent. When it is full, send waits."""
    max_block_ms: int = 60_000
    """Time for which send waits for room and for a topic's metadata."""
    max_request_size: int = 1_048_576
    """Bytes of a request, and so of a record, at most."""
    max_in_flight_requests_per_connection: int = 5
    """Requests to one broker that are sent before the first is answered."""
    retries: int = 2_147_483_647
    """Number of retries of a batch, within delivery_timeout_ms."""
    delivery_timeout_ms: int = 120_000
    """After so long a record that is not acknowledged has failed."""
    partitioner: Any = None
    """None: murmur2 by key, adaptive sticky without; "round_robin"; or a callable (key, partitions, available)."""
    partitioner_adaptive_partitioning_enable: bool = True
    """Records without a key go to partitions of faster brokers more often."""
    partitioner_availability_timeout_ms: int = 0
    """A partition whose broker takes nothing for so long gets no records without a key; 0: it does."""
    partitioner_ignore_keys: bool = False
    """Keys do not decide the partition."""
    interceptors: Sequence[Any] = ()
    """Objects with on_send and on_acknowledgement, called for each record in their order."""
    transactional_id: str | None = None
    """Makes the producer transactional. A newer producer with the same one fences this one off."""
    transaction_timeout_ms: int = 60_000
    """A transaction that lasts longer is aborted by its coordinator."""
    transaction_two_phase_commit_enable: bool = False
    """The transaction is one part of a larger one: it is prepared, and never times out (KIP-939)."""
