"""How a producer behaves; Kafka's names in Python's spelling, and Kafka's defaults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cordwood.client.settings import Settings

Serializer = Callable[[Any], bytes | None]
"""A key or value as the application has it, to bytes. Without one, bytes, str (UTF-8) and None are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(Settings):
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    acks: int = -1
    """0: nobody answers; 1: the leader has it; -1 (or "all"): all in-sync replicas have it."""
    enable_idempotence: bool = True
    compression_type: str = "none"
    compression_level: int | None = None
    """None is the codec's own default (`compression.gzip.level` and its like)."""
    batch_size: int = 16_384
    linger_ms: int = 5
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    retries: int = 2_147_483_647
    delivery_timeout_ms: int = 120_000
    partitioner: Any = None
    """None: murmur2 by key, adaptive sticky without; "round_robin"; or a callable (key, partitions, available)."""
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = 0
    partitioner_ignore_keys: bool = False
    interceptors: Sequence[Any] = ()
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False
