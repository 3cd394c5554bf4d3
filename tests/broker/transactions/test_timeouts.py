"""Transactions that are open for too long are aborted, however many they are."""

from __future__ import annotations

import asyncio

from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.simulated import SimulatedNode, simulate


def test_more_than_a_batch_takes_time_out_together() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1)
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key="x", key_type=1), 3)
        for number in range(50):
            name = f"transactional-id-{number}"
            begun = await channel.request(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4)
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
            )
            response = await channel.request(add, 3)
            assert not response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        await asyncio.sleep(15)
        [state] = node.broker.transactions.states
        assert {each.status for each in state.transactions.values()} == {TransactionStatus.COMPLETE_ABORT}

    simulate(test, transaction_state_log_num_partitions="1", message_max_bytes="2000")
