"""The log of a coordinator's shard: one partition of its topic, while this broker leads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.log import Log
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.refusal import Refusal
from cordwood.wire.compression import Codec
from cordwood.wire.control import end_txn_marker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import encode_coordinator_key, encode_coordinator_value
from cordwood.wire.records import encode_batch

# A coordinator's batches have no sequence; Kafka writes zero.
_BASE_SEQUENCE = 0


class PartitionLog:
    """The `ShardLog` of a leader epoch."""

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        disk_failed: Callable[[DiskError], None],
        codec: Codec = Codec.NONE,
    ) -> None:
        self.partition = partition
        self._clock = clock
        self._disk_failed = disk_failed
        self._codec = codec

    @property
    def leader_epoch(self) -> int:
        """The coordinator's epoch: the leader epoch of its partition."""
        return self.partition.state.leader_epoch

    @property
    def _log(self) -> Log:
        log = self.partition.log
        if log is None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.partition} is offline")
        return log

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def is_committed(self) -> bool:
        log = self._log
        return log.high_watermark >= log.end_offset

    def append(self, records: Sequence[CoordinatorRecord], producer: ProducerIdAndEpoch | None) -> int:
        now_ms = self._clock.now_ms()
        encoded = [
            (
                offset,
                now_ms,
                encode_coordinator_key(key),
                None if value is None else encode_coordinator_value(value, version),
                (),
            )
            for offset, (key, value, version) in enumerate(records)
        ]
        if producer is None:
            batch = encode_batch(encoded, codec=self._codec, base_sequence=_BASE_SEQUENCE)
        else:
            batch = encode_batch(
                encoded,
                codec=self._codec,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=_BASE_SEQUENCE,
                transactional=True,
            )
        return self._append(batch, now_ms)

    def append_marker(self, producer: ProducerIdAndEpoch, coordinator_epoch: int, *, commit: bool) -> None:
        """Appends the marker that ends a producer's transaction in this partition."""
        now_ms = self._clock.now_ms()
        marker = end_txn_marker(
            0, now_ms, producer.producer_id, producer.producer_epoch, commit, coordinator_epoch, leader_epoch=-1
        )
        self._append(marker, now_ms)

    def _append(self, batch: bytearray, now_ms: int) -> int:
        try:
            appended = self.partition.append(batch, ACKS_ALL, now_ms, AppendOrigin.COORDINATOR)
        except DiskError as error:
            # Deferred: the callbacks concern other partitions too, and may make decisions here.
            asyncio.get_running_loop().call_soon(self._disk_failed, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return appended.first_offset

    def when_committed(self, end_offset: int, then: Callable[[ErrorCode], None]) -> None:
        if self.partition.acknowledge(end_offset - 1, then):
            then(ErrorCode.NONE)
