"""Transactions: what the coordinator answers, and what it writes into its log."""

from __future__ import annotations

import asyncio
from typing import Any

from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import decode_coordinator_key, decode_coordinator_value
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.message_json import message_to_json
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from cordwood.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from cordwood.wire.messages.describe_transactions import DescribeTransactionsRequest
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.list_transactions import ListTransactionsRequest
from cordwood.wire.messages.offset_fetch import OffsetFetchRequest
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from cordwood.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from cordwood.wire.records import decode_batch
from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import fetch, produce, produce_all

_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_PARTITIONS = 50
_PAUSE_S = 0.05
_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
# Times, which no two brokers have in common.
_TIMES = ("transactionLastUpdateTimestampMs", "transactionStartTimestampMs", "transactionStartTimeMs")


class _Producer:
    """A client's state of its transactional id."""

    def __init__(self, ask: Asking, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._ask = ask

    async def begin(self, timeout_ms: int = 60_000) -> None:
        """Waits until its coordinator is available and earlier transactions have ended."""
        await self._ask.quietly(FindCoordinatorRequest(key=self.transactional_id, key_type=_TRANSACTION_KEY), 3)
        # So that no transactional id has 0, which is also what is said where there is none.
        await self._ask.quietly(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        while (response := await self._ask.quietly(request, 5)).error_code in _NOT_YET:
            await asyncio.sleep(_PAUSE_S)
        assert not response.error_code, response
        if self.producer_id != response.producer_id:
            self._ask.name(response.producer_id, f"id:{self.transactional_id}")
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def init(self, *, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    def add(
        self, *partitions: int, topic: str = "t", producer_id: int | None = None, epoch: int | None = None
    ) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id if producer_id is None else producer_id,
            v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )

    def add_batched(
        self, *partitions: int, verify: bool, producer_id: int | None = None, epoch: int | None = None
    ) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id if producer_id is None else producer_id,
                    producer_epoch=self.epoch if epoch is None else epoch,
                    verify_only=verify,
                    topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
                )
            ]
        )

    def offsets(self, group_id: str, *, epoch: int | None = None) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            group_id=group_id,
        )

    def commit(
        self, group_id: str, *, producer_id: int | None = None, epoch: int | None = None
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            generation_id=-1,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
                )
            ],
        )

    def end(self, *, commit: bool, producer_id: int | None = None, epoch: int | None = None) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )

    def batch(self, *values: str, sequence: int, epoch: int | None = None) -> bytearray:
        return batch(
            *values,
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
            transactional=True,
        )

    async def is_over(self) -> None:
        """Waits until the markers are written."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        while (await self._ask.quietly(request, 0)).transaction_states[0].transaction_state.startswith("Prepare"):
            await asyncio.sleep(_PAUSE_S)

    async def records(self, words: str) -> None:
        """Keeps what the coordinator has written about it."""
        index = partition_for_id(self.transactional_id, _PARTITIONS)
        response = await self._ask.quietly(fetch({("__transaction_state", index): 0}), 12)
        records = response.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        data = bytes(records)
        told = []
        for position, _ in batch_headers(data):
            for record in decode_batch(data, position):
                assert record.key is not None
                key = decode_coordinator_key("transaction", record.key)
                if message_to_json(key, 0)["transactionalId"] != self.transactional_id or record.value is None:
                    continue
                value, version = decode_coordinator_value("transaction", 0, record.value)
                told.append({"version": version, **message_to_json(value, version)})
        self._ask.keep(f"{words}: records", 0, [_comparable(value) for value in told])

    async def described(self, words: str) -> None:
        response = await self._ask.quietly(DescribeTransactionsRequest(transactional_ids=[self.transactional_id]), 0)
        told = message_to_json(response, 0)
        self._ask.keep(f"{words}: described", 0, [_comparable(state) for state in told["transactionStates"]])


def _comparable(value: dict[str, Any]) -> dict[str, Any]:
    for name in _TIMES:
        if name in value:
            value[name] = "never" if value[name] == -1 else "then"
    # Kafka has them in the order of a hash map.
    for topic in value.get("topics") or value.get("transactionPartitions") or ():
        for name in ("partitions", "partitionIds"):
            if name in topic:
                topic[name].sort()
    return value


async def _offsets(ask: Asking, producer: _Producer) -> None:
    """TxnOffsetCommit, by permitted and other members."""
    await _group_coordinator(ask)
    for version in range(6):
        await ask("offsets are committed", producer.commit("g"), version)
        await ask("by another epoch", producer.commit("g", epoch=producer.epoch + 1), version)
        await ask("by another id", producer.commit("g", producer_id=producer.producer_id + 1000), version)
        await ask("by nobody", _Producer(ask, "nobody").commit("g"), version)


async def _group_coordinator(ask: Asking) -> None:
    """Waits until it is there."""
    await ask.quietly(FindCoordinatorRequest(key="g", key_type=_GROUP_KEY), 3)
    while (await ask.quietly(OffsetFetchRequest(group_id="g", topics=[]), 7)).error_code in _NOT_YET:
        await asyncio.sleep(_PAUSE_S)


def _markers(
    producer: _Producer, *partitions: int, commit: bool, epoch: int, coordinator_epoch: int = 0, level: int = 0
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                transaction_result=commit,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(partitions))],
                coordinator_epoch=coordinator_epoch,
                transaction_version=level,
            )
        ]
    )


async def transactional_ids(ask: Asking) -> None:
    """InitProducerId."""
    await ask.create("t", 2)
    producer = _Producer(ask, "ids")
    await producer.begin()
    await ask("timeout 0", producer.init(timeout_ms=0), 5)
    await ask("timeout too long", producer.init(timeout_ms=900_001), 5)
    await ask("empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), 5)
    for version in range(5):
        await ask("again", producer.init(), version)
    await ask("id without epoch", producer.init(producer_id=producer.producer_id), 5)
    await ask("expected is current", producer.init(producer_id=producer.producer_id, epoch=5), 5)
    await ask("expected is last: a retry", producer.init(producer_id=producer.producer_id, epoch=5), 5)
    for version in (3, 4, 5):
        await ask("expected is older", producer.init(producer_id=producer.producer_id, epoch=4), version)
    await ask("another id is expected", producer.init(producer_id=producer.producer_id + 1000, epoch=6), 5)
    await producer.described("after that")
    unknown = _Producer(ask, "not-yet-there")
    response = await ask("unknown with an id", unknown.init(producer_id=producer.producer_id, epoch=3), 5)
    ask.name(response.producer_id, "id:unknown")
    await producer.records("ids")
    await unknown.records("unknown")
    await producer.begin()
    await ask.quietly(producer.add(0), 3)
    # While one is open: Kafka has the client ask again until that is aborted.
    epoch = producer.epoch
    await producer.begin()
    await producer.described("fenced")
    await ask("the old one adds", producer.add(0, epoch=epoch), 3)
    await ask("the old one adds, long ago", producer.add(0, epoch=epoch), 0)
    await ask("the old one ends", producer.end(commit=True, epoch=epoch), 3)
    await ask("the old one ends, long ago", producer.end(commit=True, epoch=epoch), 0)
    await ask("after it", producer.init(), 5)
    await producer.records("fenced")


async def transactions_of_version_1(ask: Asking) -> None:
    await ask.create("t", 3)
    producer = _Producer(ask, "one")
    await producer.begin()
    await ask("commit of nothing", producer.end(commit=True), 3)
    await ask("abort of nothing", producer.end(commit=False), 3)
    await ask("nobody adds", _Producer(ask, "nobody").add(0), 3)
    await ask("nobody ends", _Producer(ask, "nobody").end(commit=True), 3)
    await ask("nobody without a name adds", _Producer(ask, "").add(0), 3)
    await ask("nobody without a name ends", _Producer(ask, "").end(commit=True), 3)
    await ask("a topic that is not there", producer.add(0, topic="u"), 3)
    await ask("a partition that is not there", producer.add(0, 7), 3)
    await ask("another id adds", producer.add(0, producer_id=producer.producer_id + 1000), 3)
    for version in range(4):
        await ask("a later epoch adds", producer.add(0, epoch=producer.epoch + 1), version)
    await ask(
        "data before it is added",
        produce("t", producer.batch("a", sequence=0), transactional_id="one"),
        10,
    )
    await ask("the same, of today", produce("t", producer.batch("a", sequence=0), transactional_id="one"), 11)
    await ask("data without the name", produce("t", producer.batch("a", sequence=0)), 10)
    await ask("data with another name", produce("t", producer.batch("a", sequence=0), transactional_id="two"), 10)
    await ask("adds two", producer.add(0, 1), 3)
    await ask("adds them again", producer.add(0, 1), 3)
    await ask("adds a third", producer.add(2), 0)
    await producer.described("open")
    await ask("data", produce("t", producer.batch("a", "b", sequence=0), transactional_id="one"), 10)
    await ask("data again", produce("t", producer.batch("a", "b", sequence=0), transactional_id="one"), 10)
    await ask("a gap", produce("t", producer.batch("c", sequence=7), transactional_id="one"), 10)
    await ask("an older epoch", produce("t", producer.batch("c", sequence=2, epoch=-1), transactional_id="one"), 10)
    await ask("outside of it", produce("t", batch("x", producer_id=producer.producer_id, epoch=0, sequence=2)), 10)
    await ask(
        "a later epoch's data",
        produce("t", producer.batch("c", sequence=0, epoch=9), partition=1, transactional_id="one"),
        10,
    )
    await ask(
        "two at once",
        produce_all(
            {("t", 0): producer.batch("c", sequence=2), ("t", 1): producer.batch("d", sequence=0)},
            transactional_id="one",
        ),
        9,
    )
    for level in (0, 1):
        await ask(f"level {level} sees", fetch({("t", 0): 0}, isolation_level=level), 12)
    await ask("commits", producer.end(commit=True), 3)
    await producer.is_over()
    await producer.described("committed")
    await ask("commits again", producer.end(commit=True), 3)
    await ask("aborts after all", producer.end(commit=False), 3)
    await ask("late data", produce("t", producer.batch("z", sequence=3), transactional_id="one"), 10)
    await ask("late retry", produce("t", producer.batch("c", sequence=2), transactional_id="one"), 10)
    for level in (0, 1):
        await ask(f"level {level} sees", fetch({("t", 0): 0}, isolation_level=level), 12)
    await ask("adds for the next", producer.add(1), 3)
    await ask(
        "data of the next", produce("t", producer.batch("e", sequence=1), partition=1, transactional_id="one"), 10
    )
    await ask("aborts", producer.end(commit=False), 3)
    await producer.is_over()
    await ask("aborts again", producer.end(commit=False), 3)
    await ask("commits after all", producer.end(commit=True), 3)
    for level in (0, 1):
        await ask(f"level {level} sees", fetch({("t", 1): 0}, isolation_level=level), 12)
    await ask("offsets of a group", producer.offsets("g"), 3)
    await ask("offsets of a later epoch", producer.offsets("g", epoch=8), 3)
    await ask("offsets of a later epoch, long ago", producer.offsets("g", epoch=8), 1)
    await producer.described("with offsets")
    await _offsets(ask, producer)
    await ask("aborts the offsets", producer.end(commit=False), 3)
    await producer.is_over()
    await producer.records("one")
    await ask("producers", DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 2])]), 0)


async def transactions_of_version_2(ask: Asking) -> None:
    await ask.create("t", 3)
    producer = _Producer(ask, "two")
    await producer.begin()
    await ask("commit of nothing", producer.end(commit=True), 5)
    await ask("abort of nothing", producer.end(commit=False), 5)
    await producer.is_over()
    await producer.described("aborted nothing")
    await ask("abort of nothing again", producer.end(commit=False), 5)
    producer.epoch += 1
    await ask("data", produce("t", producer.batch("a", "b", sequence=0), transactional_id="two"), 12)
    await producer.described("open")
    await ask("data again", produce("t", producer.batch("a", "b", sequence=0), transactional_id="two"), 12)
    await ask("more", produce("t", producer.batch("c", sequence=2), transactional_id="two"), 12)
    await ask("a gap first", produce("t", producer.batch("c", sequence=2), partition=1, transactional_id="two"), 12)
    await ask(
        "an older epoch",
        produce("t", producer.batch("c", sequence=0, epoch=0), partition=2, transactional_id="two"),
        12,
    )
    await ask(
        "a later epoch", produce("t", producer.batch("c", sequence=0, epoch=9), partition=2, transactional_id="two"), 12
    )
    await ask("another name", produce("t", producer.batch("c", sequence=0), partition=2, transactional_id="three"), 12)
    for verify in (True, False):
        for version in (4, 5):
            await ask(f"batched, verify={verify}", producer.add_batched(0, 2, verify=verify), version)
    await ask("batched, older epoch", producer.add_batched(0, verify=True, epoch=0), 5)
    await ask("batched, another id", producer.add_batched(0, verify=True, producer_id=producer.producer_id + 999), 5)
    await ask("batched, unknown partition", producer.add_batched(0, 9, verify=True), 5)
    await ask("commits with an older epoch", producer.end(commit=True, epoch=0), 5)
    await ask("commits", producer.end(commit=True), 5)
    await producer.is_over()
    await ask("commits again", producer.end(commit=True), 5)
    await ask("aborts after all", producer.end(commit=False), 5)
    await producer.described("committed")
    await ask("data of the old epoch", produce("t", producer.batch("d", sequence=3), transactional_id="two"), 12)
    await ask("data of the old epoch again", produce("t", producer.batch("c", sequence=2), transactional_id="two"), 12)
    producer.epoch += 1
    await ask("commit of nothing at the new epoch", producer.end(commit=True), 5)
    await ask(
        "data of the new epoch, not from 0", produce("t", producer.batch("d", sequence=3), transactional_id="two"), 12
    )
    await ask("data of the new epoch", produce("t", producer.batch("d", sequence=0), transactional_id="two"), 12)
    await ask("aborts", producer.end(commit=False), 5)
    await producer.is_over()
    await ask("aborts again", producer.end(commit=False), 5)
    producer.epoch += 1
    await ask("offsets", producer.offsets("g"), 4)
    await ask("aborts the offsets", producer.end(commit=False), 5)
    await producer.is_over()
    producer.epoch += 1
    await ask("data", produce("t", producer.batch("a", sequence=0), transactional_id="two"), 12)
    epoch = producer.epoch
    await producer.begin()
    await producer.described("fenced")
    await ask("ends with version 4", producer.end(commit=False, epoch=epoch), 4)
    await _offsets(ask, producer)
    await producer.records("two")
    for level in (0, 1):
        await ask(f"level {level} sees", fetch({("t", 0): 0}, isolation_level=level), 12)
    await ask("producers", DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 2])]), 0)


async def transaction_markers(ask: Asking) -> None:
    """WriteTxnMarkers, with which an administrator ends a hanging transaction."""
    await ask.create("t", 2)
    producer = _Producer(ask, "hanging")
    await producer.begin()
    await ask.quietly(producer.add(0), 3)
    await ask.quietly(produce("t", producer.batch("a", sequence=0), transactional_id="hanging"), 10)
    for version in (1, 2):
        await ask("no markers", WriteTxnMarkersRequest(), version)
        await ask("an unknown partition", _markers(producer, 5, commit=False, epoch=0), version)
    await ask("an older epoch", _markers(producer, 0, commit=False, epoch=-1), 1)
    await ask("of level 2, the same epoch", _markers(producer, 0, commit=False, epoch=0, level=2), 2)
    await ask("aborts", _markers(producer, 0, 1, commit=False, epoch=0), 1)
    await ask("aborts again", _markers(producer, 0, commit=False, epoch=0), 1)
    await ask("of level 2, a later epoch", _markers(producer, 0, commit=True, epoch=1, level=2), 2)
    await ask("of level 2, again", _markers(producer, 0, commit=True, epoch=1, level=2), 2)
    await ask("an older epoch", _markers(producer, 0, commit=False, epoch=0), 1)
    await ask("an older coordinator", _markers(producer, 0, commit=False, epoch=1, coordinator_epoch=-1), 1)
    await ask("a later coordinator", _markers(producer, 0, commit=False, epoch=1, coordinator_epoch=3), 1)
    await ask("the older coordinator again", _markers(producer, 0, commit=False, epoch=1, coordinator_epoch=2), 1)
    for level in (0, 1):
        await ask(f"level {level} sees", fetch({("t", 0): 0}, isolation_level=level), 12)
    await ask("producers", DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])]), 0)


async def transactions_found(ask: Asking) -> None:
    await ask.create("t", 2)
    open_one, ended = _Producer(ask, "found-open"), _Producer(ask, "found-ended")
    await open_one.begin()
    await ended.begin()
    await ask.quietly(open_one.add(0, 1), 3)
    await ask.quietly(ended.add(0), 3)
    await ask.quietly(ended.end(commit=True), 3)
    await ended.is_over()
    await ask("none", DescribeTransactionsRequest(transactional_ids=[]), 0)
    await ask("unknown", DescribeTransactionsRequest(transactional_ids=["nobody", ""]), 0)
    await open_one.described("open")
    await ended.described("ended")
    ours = "found-.*"
    for words, request in (
        (
            "states",
            ListTransactionsRequest(state_filters=["Ongoing", "Strange"], transactional_id_pattern=ours),
        ),
        ("producers", ListTransactionsRequest(producer_id_filters=[ended.producer_id])),
        ("both", ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[ended.producer_id])),
        ("patterns", ListTransactionsRequest(transactional_id_pattern=ours)),
        ("whole patterns", ListTransactionsRequest(transactional_id_pattern="found")),
        (
            "empty pattern",
            ListTransactionsRequest(transactional_id_pattern="", producer_id_filters=[ended.producer_id]),
        ),
        ("no pattern", ListTransactionsRequest(transactional_id_pattern="found-(")),
        ("long", ListTransactionsRequest(duration_filter=1_000_000, transactional_id_pattern=ours)),
    ):
        await ask(words, request, 2)
    committed = ListTransactionsRequest(state_filters=["CompleteCommit"], producer_id_filters=[ended.producer_id])
    await ask("states", committed, 0)


async def internal_topics(ask: Asking) -> None:
    producer = _Producer(ask, "inside")
    await producer.begin()
    await _group_coordinator(ask)
    for version in (3, 9, 12):
        await ask("clients do not write here", produce("__transaction_state", batch("a", keys=["k"])), version)
        await ask("nor there", produce("__consumer_offsets", batch("a", keys=["k"])), version)
    await ask("adds an internal partition", producer.add(0, topic="__transaction_state"), 3)
