"""**FencedLog**: the write side of the schemas topic; only one is valid at a time (ADR 8).

A transactional id, the same for all registries of a topic, gives each writer a producer epoch above those before. The
writer's first record, a NOOP as Confluent's registry writes them, registers that epoch with the partition: from there
on its leader refuses every batch of an older one. So the fence has an offset, and a writer that has read up to it has
everything that precedes its own first record.

Transactions are not used: a refused batch is not in the log at all, so that readers which read uncommitted records, as
Confluent's registry does, see nothing that was not acknowledged or may yet be.

A fence holds for as long as brokers remember it, `producer.id.expiration.ms` (a day) after the writer's last batch, and
`transactional.id.expiration.ms` (a week) after it was taken. A writer trusts its own for `LEASE_S`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cordwood.client.admin.coordinators import CoordinatorKind, ask_coordinator
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BadAnswer, BrokerError, ClientError, FatalTransactionError, NetworkFailed, TimedOut
from cordwood.runtime.clock import Clock
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.primitives import ZERO_UUID, Uuid
from cordwood.wire.records import encode_batch

from .errors import TopicReplaced

LEASE_S = 600.0
"""Far below any expiry of producer ids on the brokers, which the fence depends on."""

PRODUCER_HEADER = "cordwood-producer"
"""A header of every record: its producer id and epoch. A successor with another id fences this one."""

NOOP_KEY = json.dumps({"keytype": "NOOP", "magic": 0}, separators=(",", ":")).encode()

_ALL_REPLICAS = -1
_MAX_EPOCH = 2**15 - 1
_TRANSACTION_TIMEOUT_MS = 60_000
# From version 13 on a request names topics by their ids.
_LAST_VERSION_WITH_NAMES = 12

# The partition has seen a later epoch, or has dropped this one.
_FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# The leader has the batch, but too few replicas are known to have it.
_APPENDED_PERHAPS = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT})


class StoredRecord(NamedTuple):
    key: bytes
    value: bytes | None
    headers: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """At most so many bytes of a batch."""
        headers = sum(len(name.encode()) + len(value) + 10 for name, value in self.headers.items())
        return len(self.key) + len(self.value or b"") + headers + _RECORD_OVERHEAD


_RECORD_OVERHEAD = 40
BATCH_OVERHEAD = 61


class ProducerStamp(NamedTuple):
    producer_id: int
    epoch: int

    def text(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def read(cls, text: str) -> ProducerStamp | None:
        producer_id, _, epoch = text.partition(":")
        return cls(int(producer_id), int(epoch)) if producer_id.isdecimal() and epoch.isdecimal() else None


class Fenced(Exception):
    """Another registry writes now, and nothing of the batch is in the log."""


class OutcomeUnknown(Exception):
    """The batch may be, or end up, in the log. The next writer's fence decides."""


class FencedLog:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        topic: str,
        transactional_id: str,
        timeout_s: float,
        topic_id: Uuid = ZERO_UUID,
    ) -> None:
        """With `topic_id`, writes to that topic only, and not to one that has its name later."""
        self._client = client
        self._clock = clock
        self._partition = TopicPartition(topic, 0)
        self._topic_id = topic_id
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        self._stamp = ProducerStamp(-1, -1)
        self._next_sequence = 0
        self._valid_until_s = 0.0
        self._valid_until_ms = 0

    async def take_over(self, previous: ProducerStamp | None, headers: Mapping[str, bytes]) -> int:
        """Fences all earlier writers, and returns the offset up to which the log must be read. `previous` is the stamp
        of the last record read. Raises `Fenced`, `OutcomeUnknown`, `TopicReplaced`, or a `ClientError`."""
        now_s, now_ms = asyncio.get_running_loop().time(), self._clock.now_ms()
        await self._client.topics([self._partition.topic], timeout_s=self._timeout_s)
        self._check_topic()
        self._stamp = await self._new_epoch()
        self._next_sequence = 0
        # By both clocks: one of them stops while a machine sleeps.
        self._valid_until_s, self._valid_until_ms = now_s + LEASE_S, now_ms + int(LEASE_S * 1000)
        if previous is not None and previous.producer_id != self._stamp.producer_id:
            await self._fence_other_id(previous, headers)
        return await self.append([StoredRecord(NOOP_KEY, None, headers)])

    @property
    def is_valid(self) -> bool:
        return asyncio.get_running_loop().time() < self._valid_until_s and self._clock.now_ms() < self._valid_until_ms

    async def append(self, records: Sequence[StoredRecord]) -> int:
        """Appends one batch, all or nothing, and returns the offset after it once all in-sync replicas have it.
        Raises `Fenced`, `OutcomeUnknown`, or, if nothing was appended, `TopicReplaced` or a `ClientError`."""
        if not self.is_valid:
            raise Fenced(f"the writer's lease of {LEASE_S:g} s is over")
        offset = await self._append(records, self._stamp, self._next_sequence)
        self._next_sequence += len(records)
        return offset

    async def _new_epoch(self) -> ProducerStamp:
        async def ask(broker: BrokerConnection) -> ProducerStamp:
            request = InitProducerIdRequest(
                transactional_id=self._transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
            )
            response = await broker.ask(request)
            if response.error_code != ErrorCode.NONE:
                raise BrokerError(response.error_code, subject=f"transactional id {self._transactional_id}")
            return ProducerStamp(response.producer_id, response.producer_epoch)

        return await ask_coordinator(self._client, CoordinatorKind.TRANSACTION, self._transactional_id, ask)

    async def _fence_other_id(self, previous: ProducerStamp, headers: Mapping[str, bytes]) -> None:
        """Retires the old id after the coordinator has assigned a new one, because the epochs of the old id were used
        up or its state had expired. The old id gets an epoch that no coordinator assigns. Several writers may do so: to
        the leader their batches are identical."""
        fence = ProducerStamp(previous.producer_id, _MAX_EPOCH)
        await self._append([StoredRecord(NOOP_KEY, None, headers)], fence, 0)

    async def _append(self, records: Sequence[StoredRecord], stamp: ProducerStamp, sequence: int) -> int:
        now_ms = self._clock.now_ms()
        own = {PRODUCER_HEADER: stamp.text().encode()}
        rows = [
            (number, now_ms, record.key, record.value, [*{**record.headers, **own}.items()])
            for number, record in enumerate(records)
        ]
        batch = bytes(
            encode_batch(rows, producer_id=stamp.producer_id, producer_epoch=stamp.epoch, base_sequence=sequence)
        )
        is_perhaps_there = False

        async def attempt() -> int:
            nonlocal is_perhaps_there
            self._check_topic()
            connection = await self._client.broker(self._client.cluster.leader(self._partition))
            try:
                return await self._produce(connection, batch)
            except BrokerError as error:
                is_perhaps_there |= error.code in _APPENDED_PERHAPS
                raise
            except (NetworkFailed, TimedOut, BadAnswer):
                is_perhaps_there = True
                raise

        try:
            # The batch stays the same, so that the leader recognises one that it has.
            base_offset = await self._client.retrying(attempt, self._timeout_s)
        except ClientError as error:
            if is_perhaps_there:
                raise OutcomeUnknown(str(error)) from error
            if isinstance(error, FatalTransactionError) or (isinstance(error, BrokerError) and error.code in _FENCED):
                raise Fenced(str(error)) from error
            raise
        return base_offset + len(records)

    def _check_topic(self) -> None:
        """Raises `TopicReplaced`. By the metadata at hand: brokers with ids refuse what is sent to the old one."""
        known = self._client.cluster.topics.get(self._partition.topic)
        if known is not None and ZERO_UUID not in (known.id, self._topic_id) and known.id != self._topic_id:
            raise TopicReplaced(self._partition.topic)

    async def _produce(self, connection: BrokerConnection, batch: bytes) -> int:
        data = PartitionProduceData(index=self._partition.partition, records=bytearray(batch))
        request = ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=[TopicProduceData(name=self._partition.topic, topic_id=self._topic_id, partition_data=[data])],
        )
        at_most = _LAST_VERSION_WITH_NAMES if self._topic_id == ZERO_UUID else None
        response = await connection.ask(request, at_most=at_most)
        told = response.responses[0].partition_responses[0]
        if told.error_code != ErrorCode.NONE:
            raise BrokerError(told.error_code, told.error_message, str(self._partition))
        return told.base_offset
