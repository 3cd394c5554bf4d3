"""Offsets of transactions on a node in virtual time, where every write waits for the disk."""

from __future__ import annotations

import asyncio

from cordwood.broker.coordination.topics import GROUP_TOPIC
from cordwood.broker.transactions.marker import Marker
from cordwood.shard.decision import Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.simulated import SimulatedNode, simulate

TOPIC, ID = "t", "tx"


def test_accepted_offsets_are_written_before_the_transaction_can_end() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 1)
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key="g", key_type=0), 3)
        await channel.request(FindCoordinatorRequest(key=ID, key_type=1), 3)
        begun = await channel.request(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
        owner = ProducerIdAndEpoch(begun.producer_id, begun.producer_epoch)
        add = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=owner.producer_id, producer_epoch=0, group_id="g")
        commit = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            producer_id=owner.producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
                    ],
                )
            ],
        )
        index = node.broker.groups.index_of("g")
        log = node.partition(GROUP_TOPIC, index).log
        assert log is not None
        # The coordinator's word takes time: what it adds is in flight to the disk.
        added = asyncio.create_task(channel.request(add, 3))
        committed = asyncio.create_task(channel.request(commit, 3))
        shard = node.broker.transactions.shard(ID)
        while not node.broker.transactional_produce._guards:
            await asyncio.sleep(0)
        # The transaction ends right after it has given its word.
        word = shard.decide(lambda _state: Decision(None))
        assert isinstance(word, Promise)
        marker = Marker(*owner, 0, commit=False, transaction_version=0)

        def end(_outcome: object) -> None:
            node.broker.coordinators.marker_writer.write(GROUP_TOPIC, index, marker)

        word.then(end)
        assert not (await added).error_code
        assert not (await committed).topics[0].partitions[0].error_code
        assert log.producers.by_id[owner.producer_id].txn_first_offset < 0

    simulate(test, log_flush_interval_messages="1")
