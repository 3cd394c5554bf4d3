"""Sends the markers of a prepared transaction to the leaders of its partitions, and completes it when all have them.

sender.perform(shard, WriteMarkers("orders-writer", partitions))

A leader on this broker gets the same request as one on another; `BrokerPeers` needs no connection for it. Markers for
another broker that arise within a turn of the loop share a request. Failures are retried with back-off, at the
partition's current leader; a change of the leader ends the back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence

from cordwood.broker.peers import BrokerPeers
from cordwood.coordinator.partition_log import PartitionLog
from cordwood.coordinator.transactions.ending import complete
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.coordinator.transactions.statuses import PREPARED, TransactionStatus
from cordwood.coordinator.transactions.transaction import TopicPartition, Transaction, WriteMarkers
from cordwood.metadata.image import NO_LEADER, MetadataImage
from cordwood.net.peers.backoff import Backoff
from cordwood.net.peers.exceptions import PeerError
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

from .marker import Marker

_log = logging.getLogger(__name__)

_RETRY_MS = 100
_RETRY_MAX_MS = 1_000
# Back-off before a completion that could not be written is retried.
_COMPLETION_RETRY_MS = 100
# About 50 µs each on this broker: other work runs before the next.
_AT_ONCE = 100
# The partition has seen a later epoch of the producer, so this transaction has ended there; or it can never have
# accepted a record of a transaction.
_SETTLED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ErrorCode.UNSUPPORTED_VERSION,
)


class MarkerSender:
    """Performs the effects of the transaction coordinator's shards."""

    def __init__(self, broker_id: int, peers: BrokerPeers, random: Random) -> None:
        self._broker_id = broker_id
        self._peers = peers
        self._backoff = Backoff(_RETRY_MS, _RETRY_MAX_MS, random)
        self._image = MetadataImage()
        # Markers for other brokers, by id: sent at the end of this turn of the loop.
        self._queues: dict[int, list[_Part]] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._backing_off: dict[_Part, asyncio.TimerHandle] = {}

    def perform(self, shard: Shard[TransactionShardState], effect: WriteMarkers) -> None:
        """Sends markers after the responses of this turn of the loop, unless it is urgent: the producer that ends a
        transaction need not wait for its markers. They are written before a request is read that was sent after that
        response."""
        prepared = shard.state.transactions.get(effect.transactional_id)
        if prepared is None or prepared.status not in PREPARED:
            return
        if effect.is_urgent:
            self._begin(shard, prepared, sorted(effect.partitions))
        else:
            asyncio.get_running_loop().call_soon(self._begin, shard, prepared, sorted(effect.partitions))

    def _begin(
        self, shard: Shard[TransactionShardState], prepared: Transaction, partitions: Sequence[TopicPartition]
    ) -> None:
        job = _Job(shard, prepared, len(partitions))
        self._route(job, partitions)
        job.settle(0)

    def apply(self, image: MetadataImage) -> None:
        """Retries at once for partitions whose leader has changed."""
        before, self._image = self._image, image
        self._peers.apply(image)
        if before.topics is image.topics:
            return
        for part, timer in list(self._backing_off.items()):
            if any(_leader(before, partition) != _leader(image, partition) for partition in part.partitions):
                timer.cancel()
                self._try_again(part)

    async def close(self) -> None:
        for timer in self._backing_off.values():
            timer.cancel()
        await self._peers.close()
        await asyncio.gather(*self._in_flight)

    # An attempt

    def _route(self, job: _Job, partitions: Sequence[TopicPartition]) -> None:
        if job.is_over:
            return
        if len(partitions) > _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._route, job, partitions[_AT_ONCE:])
            partitions = partitions[:_AT_ONCE]
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(_leader(self._image, partition), []).append(partition)
        for leader, led in by_leader.items():
            part = _Part(job, led, leader)
            if leader is None:
                _log.info("Partitions %s of producer %d need no marker: deleted", led, job.marker.producer_id)
                job.settle(len(led))
            elif leader == NO_LEADER:
                self._back_off(part)
            elif leader == self._broker_id:
                # Sharing a request would save nothing here.
                self._send(leader, [part])
            else:
                self._enqueue(leader, part)

    def _enqueue(self, leader: int, part: _Part) -> None:
        if leader not in self._queues:
            self._queues[leader] = []
            asyncio.get_running_loop().call_soon(lambda: self._send(leader, self._queues.pop(leader)))
        self._queues[leader].append(part)

    def _send(self, leader: int, parts: list[_Part]) -> None:
        request = WriteTxnMarkersRequest(markers=[_writable(part) for part in parts])
        answer = self._peers.send(leader, request)
        if isinstance(answer, WriteTxnMarkersResponse):
            self._answered(parts, answer)
        else:
            task = asyncio.get_running_loop().create_task(self._await(parts, answer))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def _await(self, parts: list[_Part], answer: Awaitable[WriteTxnMarkersResponse]) -> None:
        try:
            response = await answer
        except PeerError as error:
            _log.info("Broker %s did not write transaction markers, retrying: %s", parts[0].leader, error)
            for part in parts:
                self._failed(part)
        else:
            self._answered(parts, response)

    def _answered(self, parts: list[_Part], response: WriteTxnMarkersResponse) -> None:
        codes = {
            (marker.producer_id, topic.name, partition.partition_index): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        for part in parts:
            job = part.job
            producer_id = job.marker.producer_id
            failed = []
            for partition in part.partitions:
                code = codes.get((producer_id, *partition), ErrorCode.UNKNOWN_SERVER_ERROR)
                if code == ErrorCode.NONE:
                    continue
                if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    topic, index = partition
                    job.fail(Refusal(ErrorCode.of(code), f"{topic}-{index} has seen a later coordinator epoch"))
                elif code in _SETTLED:
                    _log.info(
                        "%s-%d needs no marker of producer %d: %s", *partition, producer_id, ErrorCode.of(code).name
                    )
                else:
                    _log.info(
                        "%s-%d did not take the marker of producer %d, retrying: %s",
                        *partition,
                        producer_id,
                        ErrorCode.of(code).name,
                    )
                    failed.append(partition)
            job.settle(len(part.partitions) - len(failed))
            if failed:
                self._failed(_Part(job, failed, part.leader))

    # The next attempt

    def _failed(self, part: _Part) -> None:
        """Retries a new leader at once, and the same one after a back-off."""
        moved = [partition for partition in part.partitions if _leader(self._image, partition) != part.leader]
        stayed = [partition for partition in part.partitions if partition not in moved]
        if stayed:
            self._back_off(_Part(part.job, stayed, part.leader))
        if moved:
            self._route(part.job, moved)

    def _back_off(self, part: _Part) -> None:
        if not part.job.is_over:
            part.job.failures += 1
            pause_s = self._backoff.pause_s(part.job.failures)
            self._backing_off[part] = asyncio.get_running_loop().call_later(pause_s, self._try_again, part)

    def _try_again(self, part: _Part) -> None:
        del self._backing_off[part]
        self._route(part.job, part.partitions)


class _Job:
    """The markers of a transaction: complete when all of its partitions have theirs, or need none."""

    __slots__ = ("_is_done", "_missing", "_prepared", "_shard", "failures", "marker")

    def __init__(self, shard: Shard[TransactionShardState], prepared: Transaction, missing: int) -> None:
        assert isinstance(shard.log, PartitionLog)
        self.marker = Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            shard.log.leader_epoch,
            prepared.status is TransactionStatus.PREPARE_COMMIT,
            prepared.client_version,
        )
        self.failures = 0
        self._shard = shard
        self._prepared = prepared
        # The partitions without a marker so far.
        self._missing = missing
        self._is_done = False

    @property
    def is_over(self) -> bool:
        """True also if another broker coordinates the transaction, or this one has reloaded it: loading handles
        prepared transactions."""
        shard, prepared = self._shard, self._prepared
        return (
            self._is_done or shard.is_closed or shard.state.transactions.get(prepared.transactional_id) is not prepared
        )

    def settle(self, count: int) -> None:
        """Records partitions that have the marker, and completes the transaction after the last one."""
        self._missing -= count
        if self._missing or self.is_over:
            return
        self._is_done = True
        try:
            self._shard.decide(lambda state: complete(state, self._prepared))
        except Refusal as refusal:
            if refusal.error is not ErrorCode.NOT_COORDINATOR:
                name = self._prepared.transactional_id
                _log.warning("Transactional id %s: cannot write the completion, retrying: %s", name, refusal)
                self._try_later(())

    def fail(self, refusal: Refusal) -> None:
        """A leader knows a later coordinator. The metadata will confirm that; or it did in between, and this broker has
        a later epoch by now."""
        if not self.is_over:
            self._is_done = True
            name = self._prepared.transactional_id
            _log.info(
                "Transactional id %s: markers refused, retrying as long as it is coordinated here: %s", name, refusal
            )
            self._try_later(self._prepared.partitions)

    def _try_later(self, partitions: Collection[TopicPartition]) -> None:
        self._shard.state.prepare_later(self._prepared, partitions, _COMPLETION_RETRY_MS)
        # Sets the shard's timer.
        self._shard.loaded()


class _Part:
    """The partitions of a job that one broker leads; `leader` is None for missing partitions."""

    __slots__ = ("job", "leader", "partitions")

    def __init__(self, job: _Job, partitions: Sequence[TopicPartition], leader: int | None) -> None:
        self.job = job
        self.partitions = partitions
        self.leader = leader


def _leader(image: MetadataImage, partition: TopicPartition) -> int | None:
    found = image.topics.partition(*partition)
    return None if found is None else found.leader


def _writable(part: _Part) -> WritableTxnMarker:
    marker = part.job.marker
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=_by_topic(part.partitions),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return [WritableTxnMarkerTopic(name=topic, partition_indexes=found) for topic, found in indexes.items()]
