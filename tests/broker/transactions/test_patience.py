"""A request that arrives before the last transaction is complete waits briefly."""

from __future__ import annotations

from dataclasses import replace

from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.metadata.image import NO_LEADER
from cordwood.wire.errors import ErrorCode
from tests.broker.simulated import SimulatedNode, simulate
from tests.broker.transactions.test_transactions import TOPIC, Producer, state_of


def test_a_timed_out_waiter_is_forgotten() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC, 2)
        producer = await Producer.begin(node)
        await producer.write("a", partition=1)
        partition = node.partition(TOPIC, 1)
        partition.update(replace(partition.state, leader=NO_LEADER), partition.config)
        producer.epoch = (await producer.end()).producer_epoch
        for _ in range(3):
            assert (await producer.write("b")).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            assert await producer.add(0) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert state_of(node).status is TransactionStatus.PREPARE_COMMIT
        assert not node.broker.transactions.shard("tx").state._waiting

    simulate(test)
