"""Transactions whose coordinator, partitions and offsets are on different brokers, any of which is killed."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.broker.coordination.topics import GROUP_TOPIC, TRANSACTION_TOPIC
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.producer import Producer
from cordwood.coordinator.transactions.statuses import TransactionStatus
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

T0 = TopicPartition("t", 0)
VERSIONS = pytest.mark.parametrize("version", [1, 2])


async def write(producer: Producer, value: bytes, partitions: int = 3) -> None:
    for future in [await producer.send("t", value, partition=index) for index in range(partitions)]:
        await future


def state_of(cluster: ThreeBrokers, transactional_id: str) -> TransactionStatus | None:
    """As its coordinator has it; None while there is none."""
    for broker_id, machine in cluster.brokers.items():
        if machine.is_up:
            try:
                state = cluster.broker(broker_id).transactions.shard(transactional_id).state
            except Refusal:
                continue
            return state.transaction(transactional_id).status
    return None


def coordinator_of(cluster: ThreeBrokers, transactional_id: str) -> int:
    return cluster.leader(TRANSACTION_TOPIC, partition_for_id(transactional_id, 3))


async def completed(cluster: ThreeBrokers, transactional_id: str) -> None:
    """Readers see a commit when its markers are written, which is after it is answered."""
    await cluster.until(lambda: state_of(cluster, transactional_id) is TransactionStatus.COMPLETE_COMMIT)


@VERSIONS
def test_a_transaction_commits_on_all_brokers(version: int) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, 2, 3)
        for name in ("a", "b", "c", "d"):
            producer = await cluster.transactional(name)
            for number, commit in enumerate((True, False, True)):
                await producer.begin_transaction()
                await write(producer, f"{name}{number}".encode())
                await (producer.commit_transaction() if commit else producer.abort_transaction())
            await producer.close()
            await completed(cluster, name)
        found = await cluster.committed("t")
        assert found == 3 * [f"{name}{number}".encode() for name in "abcd" for number in (0, 2)]

    with_three_brokers(test, transaction_version=version)


@VERSIONS
def test_a_new_coordinator_writes_the_markers_that_the_old_one_had_prepared(version: int) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, 2, 3)
        producer = await cluster.transactional("tx")
        coordinator = coordinator_of(cluster, "tx")
        await producer.begin_transaction()
        await write(producer, b"a")
        ended = asyncio.ensure_future(producer.commit_transaction())
        await cluster.until(lambda: state_of(cluster, "tx") is TransactionStatus.PREPARE_COMMIT)
        cluster.kill(coordinator)
        await ended
        await completed(cluster, "tx")
        assert coordinator_of(cluster, "tx") != coordinator
        assert await cluster.committed("t") == 3 * [b"a"]
        await producer.begin_transaction()
        await write(producer, b"b")
        await producer.commit_transaction()
        await completed(cluster, "tx")
        assert await cluster.committed("t") == 3 * [b"a", b"b"]

    with_three_brokers(test, transaction_version=version)


@VERSIONS
def test_markers_follow_the_leader_of_a_partition(version: int) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        producer = await cluster.transactional("tx")
        coordinator = coordinator_of(cluster, "tx")
        leader = coordinator % 3 + 1
        await cluster.create("t", leader)
        await producer.begin_transaction()
        await write(producer, b"a", partitions=1)
        cluster.kill(leader)
        await producer.commit_transaction()
        await completed(cluster, "tx")
        assert await cluster.committed("t") == [b"a"]

    with_three_brokers(test, transaction_version=version)


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_of_an_open_transaction_move_with_the_group_coordinator(version: int, commit: bool) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        producer = await cluster.transactional("tx")
        async with cluster.consumer(group_id="g") as consumer:
            await consumer.commit({T0: OffsetAndMetadata(1)})
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(2)}, GroupMetadata("g"))
            cluster.kill(cluster.leader(GROUP_TOPIC, partition_for_id("g", 3)))
            await (producer.commit_transaction() if commit else producer.abort_transaction())
            found = (await consumer.committed(T0))[T0]
            assert found is not None
            assert found.offset == (2 if commit else 1)

    with_three_brokers(test, transaction_version=version)


def test_questions_during_a_request_are_merged_into_the_next() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        names = [f"tx{number}" for number in range(12)]
        owners = {}
        for name in names:
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            await cluster.ask(1, FindCoordinatorRequest(key=name, key_type=1), 3)
            response = await cluster.ask(coordinator_of(cluster, name), request, 4)
            assert not response.error_code
            owners[name] = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        leader = next(broker_id for broker_id in (1, 2, 3) if broker_id != coordinator_of(cluster, names[0]))
        remote = [name for name in names if coordinator_of(cluster, name) == coordinator_of(cluster, names[0])]
        assert len(remote) > 2
        verifier = cluster.broker(leader).partition_verifier
        place = ("t", 0)
        added = [verifier.ask(name, owners[name], [place], adds=True) for name in remote]
        # The first is in flight; the others wait for it, and with them a second question about the first.
        assert not any(isinstance(answer, dict) for answer in added)
        assert [len(queue) for queue in verifier._queues.values()] == [len(remote) - 1]
        unknown = verifier.ask(remote[0], ProducerIdAndEpoch(owners[remote[0]].producer_id, 7), [place], adds=False)
        for answer in added:
            assert await settled(answer) == {place: ErrorCode.NONE}
        assert await settled(unknown) == {place: ErrorCode.PRODUCER_FENCED}
        assert not verifier._queues

    with_three_brokers(test)


def test_producers_try_again_while_the_coordinator_cannot_be_asked() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1)
        await cluster.transactional("tx")
        coordinator = coordinator_of(cluster, "tx")
        leader = coordinator % 3 + 1
        verifier = cluster.broker(leader).partition_verifier
        asked = verifier.ask("tx", ProducerIdAndEpoch(1, 0), [("t", 0)], adds=False)
        cluster.kill(coordinator)
        assert await settled(asked) == {("t", 0): ErrorCode.NETWORK_EXCEPTION}

    with_three_brokers(test)
