"""Settings of a producer; Kafka's names in Python's spelling, and Kafka's defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.settings import Settings

Serializer = Callable[[Any], bytes | None]
"""Converts a key or value to bytes. Without one, bytes, str (UTF-8) and None are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(Settings):
    key_serializer: Serializer | None = None
    """A callable that converts a key to bytes. Without one, bytes, str (UTF-8) and None are accepted."""
    value_serializer: Serializer | None = None
    """A callable that converts a value to bytes. Without one, bytes, str (UTF-8) and None are accepted."""
    acks: int = -1
    """0: no acknowledgement; 1: the leader has written it; -1 (or "all"): all in-sync replicas have it."""
    enable_idempotence: bool = True
    """Writes each record once and in order, despite retries. Needs acks=all; disabled implicitly by other acks."""
    compression_type: str = "none"
    """none, gzip, snappy, lz4 or zstd."""
    compression_level: int | None = None
    """None is the codec's default (`compression.gzip.level` and so on)."""
    batch_size: int = 16_384
    """Bytes of records that are collected per partition before they are sent."""
    linger_ms: int = 5
    """Time that a batch that is not full waits for more records."""
    buffer_memory: int = 33_554_432
    """Bytes of queued records. When it is full, send waits."""
    max_block_ms: int = 60_000
    """Time that send waits for room and for a topic's metadata."""
    max_request_size: int = 1_048_576
    """Maximum bytes of a request, and so of a record."""
    max_in_flight_requests_per_connection: int = 5
    """Maximum number of requests in flight to one broker."""
    retries: int = 2_147_483_647
    """Maximum number of retries of a batch, within delivery_timeout_ms."""
    delivery_timeout_ms: int = 120_000
    """A record that is not acknowledged after this time has failed."""
    partitioner: Any = None
    """None: murmur2 by key, adaptive sticky without; "round_robin"; or a callable (key, partitions, available)."""
    partitioner_adaptive_partitioning_enable: bool = True
    """Records without a key go to partitions of faster brokers more often."""
    partitioner_availability_timeout_ms: int = 0
    """Records without keys avoid a partition whose broker takes nothing for this long; 0 disables this."""
    partitioner_ignore_keys: bool = False
    """Ignores keys when choosing partitions."""
    interceptors: Sequence[Any] = ()
    """Objects with on_send and on_acknowledgement, called for each record in order."""
    transactional_id: str | None = None
    """Makes the producer transactional. A newer producer with the same id fences this one."""
    transaction_timeout_ms: int = 60_000
    """The coordinator aborts a transaction that lasts longer."""
    transaction_two_phase_commit_enable: bool = False
    """The transaction is part of a larger one: it is prepared, and never times out (KIP-939)."""
