"""Transactions of our producer on a real node: what readers of committed records see of them, and when."""

import asyncio
from collections.abc import Awaitable, Callable

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from cordwood.client.admin.cluster import FeatureUpdate, update_features
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BadSetting,
    ClientError,
    FatalTransactionError,
    IllegalState,
    ProducerFenced,
    RecordTooLarge,
    SerializationFailed,
    TimedOut,
    TopicNotFound,
    TransactionAbortable,
    TransactionAborted,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.transactions.prepared import PreparedTxnState
from tests.client.transacting import BOTH, PARTITIONS, TOPIC, Stage, each, on_stage, transact, write

P0 = TopicPartition(TOPIC, 0)


@BOTH
async def test_committed_records_are_read_and_aborted_ones_are_not(stage: Stage) -> None:
    producer = await stage.producer("id")
    for number, commit in enumerate([True, False, True, False, True]):
        await transact(producer, b"%d" % number, commit=commit)
    assert await stage.committed() == each(b"0", b"2", b"4")


@BOTH
async def test_nothing_is_read_before_the_commit(stage: Stage) -> None:
    producer = await stage.writer()
    assert await stage.committed() == each()
    await producer.commit_transaction()
    assert await stage.committed() == each(b"x")


@BOTH
async def test_a_commit_sends_lingering_batches(stage: Stage) -> None:
    producer = await stage.producer("id", linger_ms=10_000)
    await producer.begin_transaction()
    deliveries = [await producer.send(TOPIC, b"x", partition=partition) for partition in range(PARTITIONS)]
    await producer.commit_transaction()
    assert [delivery.done() for delivery in deliveries] == [True] * PARTITIONS
    assert await stage.committed() == each(b"x")


@BOTH
async def test_an_abort_drops_lingering_batches(stage: Stage) -> None:
    producer = await stage.producer("id", linger_ms=10_000)
    await producer.begin_transaction()
    delivery = await producer.send(TOPIC, b"x", partition=0)
    await producer.abort_transaction()
    with pytest.raises(TransactionAborted):
        await delivery
    await transact(producer, b"next")
    assert await stage.committed() == each(b"next")


@BOTH
async def test_a_transaction_with_a_record_that_is_refused_is_aborted_with_all_that_follows_it(stage: Stage) -> None:
    producer = await stage.producer("id", batch_size=0, linger_ms=0)
    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"first", partition=0)
    in_a_year_ms = stage.world.clock.now_ms() + 365 * 86_400_000
    deliveries = [await producer.send(TOPIC, b"refused", partition=0, timestamp_ms=in_a_year_ms)]
    deliveries += [await producer.send(TOPIC, b"following", partition=0) for _ in range(3)]
    with pytest.raises(TransactionAbortable):
        await producer.commit_transaction()
    await producer.abort_transaction()
    for delivery in deliveries:
        with pytest.raises(ClientError):
            await delivery
    await transact(producer, b"next")
    assert await stage.committed() == each(b"next")


async def send_too_large(producer: Producer) -> object:
    return await producer.send(TOPIC, b"x" * 2_000, partition=0)


async def send_too_large_column(producer: Producer) -> object:
    return await producer.send_arrow(pa.table({"value": [b"x" * 2_000]}), TOPIC, partition=0)


async def send_to_no_topic(producer: Producer) -> object:
    return await producer.send("not-there", b"x", partition=7)


@pytest.mark.parametrize("refused", [send_too_large, send_too_large_column, send_to_no_topic])
@BOTH
async def test_a_record_that_was_not_taken_spoils_its_transaction(
    stage: Stage, refused: Callable[[Producer], Awaitable[object]]
) -> None:
    producer = await stage.writer(max_request_size=1_000, max_block_ms=1_000)
    with pytest.raises((RecordTooLarge, TopicNotFound)):
        await refused(producer)
    with pytest.raises(TransactionAbortable):
        await producer.commit_transaction()
    await producer.abort_transaction()
    await transact(producer, b"next")
    assert await stage.committed() == each(b"next")


@BOTH
async def test_a_record_that_was_not_taken_does_not_keep_an_empty_transaction_from_its_end(stage: Stage) -> None:
    producer = await stage.producer("id", max_request_size=1_000)
    await producer.begin_transaction()
    with pytest.raises(RecordTooLarge):
        await send_too_large(producer)
    await producer.abort_transaction()
    await transact(producer, b"next")
    assert await stage.committed() == each(b"next")


@BOTH
async def test_an_invalid_call_does_not_abort_the_transaction(stage: Stage) -> None:
    producer = await stage.writer()
    with pytest.raises(SerializationFailed):
        await producer.send(TOPIC, object(), partition=0)
    with pytest.raises(BadSetting):
        await producer.send(TOPIC, b"x", partition=-1)
    await producer.commit_transaction()
    assert await stage.committed() == each(b"x")


@BOTH
async def test_a_zombie_is_fenced_and_leaves_nothing_behind(stage: Stage) -> None:
    zombie = await stage.writer(b"of the zombie")
    successor = await stage.producer("id")
    with pytest.raises(ProducerFenced):
        await zombie.commit_transaction()
    with pytest.raises(ProducerFenced):
        await zombie.begin_transaction()
    await transact(successor, b"of the successor")
    assert await stage.committed() == each(b"of the successor")


@BOTH
async def test_a_zombie_that_keeps_writing_is_fenced(stage: Stage) -> None:
    zombie = await stage.writer(b"of the zombie")
    await stage.producer("id")
    delivery = await zombie.send(TOPIC, b"late", partition=0)
    with pytest.raises(ClientError):
        await delivery
    # Whether it is spoiled or fenced is not the partition's to know; the coordinator knows.
    with pytest.raises(ProducerFenced):
        await zombie.abort_transaction()


@BOTH
async def test_a_transaction_that_takes_too_long_is_aborted(stage: Stage) -> None:
    producer = await stage.writer(b"forgotten", transaction_timeout_ms=1_000)
    await asyncio.sleep(5)
    with pytest.raises((ProducerFenced, TransactionAbortable, FatalTransactionError)):
        await producer.commit_transaction()
    successor = await stage.producer("id")
    await transact(successor, b"next")
    assert await stage.committed() == each(b"next")


@on_stage(2)
async def test_a_producer_whose_transaction_took_too_long_continues_after_its_abort(stage: Stage) -> None:
    producer = await stage.writer(b"forgotten", transaction_timeout_ms=1_000)
    await asyncio.sleep(5)
    with pytest.raises(TransactionAbortable):
        await producer.commit_transaction()
    await producer.abort_transaction()
    await transact(producer, b"next")
    assert await stage.committed() == each(b"next")


@BOTH
async def test_offsets_count_with_the_transaction_or_not_at_all(stage: Stage) -> None:
    producer = await stage.producer("id")
    for offset, commit in ((7, True), (70, False)):
        await producer.begin_transaction()
        await write(producer, b"x", [0])
        await producer.send_offsets_to_transaction({P0: OffsetAndMetadata(offset)}, GroupMetadata("g"))
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    assert await stage.committed_offset("g", P0) == 7


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@BOTH
async def test_the_offsets_of_a_member_count_while_it_is_one(stage: Stage, protocol: str) -> None:
    producer = await stage.producer("id")
    await transact(producer, b"x")
    async with stage.consumer(group_id="g", group_protocol=protocol) as consumer:
        consumer.subscribe([TOPIC])
        while not await consumer.getmany(timeout_ms=100):
            pass
        member = consumer.group_metadata()
        assert member.member_id
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({P0: OffsetAndMetadata(1)}, member)
        await producer.commit_transaction()
    assert await stage.committed_offset("g", P0) == 1
    await producer.begin_transaction()
    with pytest.raises(TransactionAbortable, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"):
        await producer.send_offsets_to_transaction({P0: OffsetAndMetadata(0)}, member)
    await producer.abort_transaction()
    await transact(producer, b"y")
    assert await stage.committed_offset("g", P0) == 1


@BOTH
async def test_closing_a_producer_aborts_its_open_transaction(stage: Stage) -> None:
    producer = await stage.writer()
    await producer.close()
    successor = await stage.producer("other")
    await transact(successor, b"y")
    assert await stage.committed() == each(b"y")


@BOTH
async def test_a_closed_producer_finishes_the_commit_that_is_in_progress(stage: Stage) -> None:
    producer = await stage.writer(max_block_ms=5_000)
    stage.node.kill()
    with pytest.raises(TimedOut, match="max_block_ms"):
        await producer.commit_transaction()
    assert await stage.node.start()
    await producer.close()
    assert await stage.committed() == each(b"x")


async def commit_in_the_end(producer: Producer) -> None:
    for _ in range(30):
        try:
            await producer.commit_transaction()
            break
        except TimedOut:
            continue


@BOTH
async def test_a_commit_that_ran_out_of_time_is_taken_up_by_the_next_call(stage: Stage) -> None:
    producer = await stage.writer(max_block_ms=1_000)
    stage.node.kill()
    with pytest.raises(TimedOut) as raised:
        await producer.commit_transaction()
    assert raised.value.what_to_do is not None
    with pytest.raises(IllegalState, match=r"commit_transaction\(\) is not known yet"):
        await producer.begin_transaction()
    assert await stage.node.start()
    await commit_in_the_end(producer)
    await transact(producer, b"y")
    assert await stage.committed() == each(b"x", b"y")


@BOTH
async def test_a_transaction_block_whose_commit_times_out_raises_and_the_commit_continues(stage: Stage) -> None:
    producer = await stage.producer("id", max_block_ms=1_000)

    async def work() -> None:
        async with producer.transaction():
            await write(producer, b"x")
            stage.node.kill()

    with pytest.raises(TimedOut, match="commit_transaction"):
        await work()
    assert await stage.node.start()
    await commit_in_the_end(producer)
    assert await stage.committed() == each(b"x")


@BOTH
async def test_with_a_transaction_whose_task_is_cancelled_while_it_commits_the_task_is_cancelled(stage: Stage) -> None:
    producer = await stage.producer("id")

    async def work() -> None:
        async with producer.transaction():
            await write(producer, b"x")
            stage.node.kill()

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancel_commit(stage: Stage, producer: Producer, value: bytes, unsent: bytes | None = None) -> None:
    """The node is killed before it, and `unsent` is sent after that."""

    async def work() -> None:
        async with asyncio.timeout(5), producer.transaction():
            await write(producer, value)
            stage.node.kill()
            if unsent is not None:
                await producer.send(TOPIC, unsent, partition=0)

    with pytest.raises(TimeoutError):
        await work()


@BOTH
async def test_after_a_commit_whose_task_is_cancelled_the_next_transaction_begins_when_it_is_done(stage: Stage) -> None:
    producer = await stage.producer("id", max_block_ms=600_000)
    await cancel_commit(stage, producer, b"x")
    assert await stage.node.start()
    async with producer.transaction():
        await write(producer, b"y")
    assert await stage.committed() == each(b"x", b"y")


@BOTH
async def test_a_repeated_commit_returns_the_outcome_of_a_cancelled_one(
    stage: Stage,
) -> None:
    producer = await stage.producer("id", max_block_ms=600_000)
    await cancel_commit(stage, producer, b"x")
    assert await stage.node.start()
    await producer.commit_transaction()
    with pytest.raises(IllegalState, match="no transaction is open"):
        await producer.commit_transaction()
    assert await stage.committed() == each(b"x")


@BOTH
async def test_a_commit_whose_task_is_cancelled_and_that_fails_is_aborted_before_the_next_begins(stage: Stage) -> None:
    producer = await stage.producer(
        "id", max_block_ms=600_000, delivery_timeout_ms=20_000, request_timeout_ms=1_000, linger_ms=0
    )
    await cancel_commit(stage, producer, b"x", unsent=b"expires")
    # Past the record's time.
    await asyncio.sleep(60)
    assert await stage.node.start()
    await transact(producer, b"y")
    assert await stage.committed() == each(b"y")


@BOTH
async def test_a_returning_node_continues_the_transaction(stage: Stage) -> None:
    producer = await stage.producer("id")
    await transact(producer, b"before")
    await producer.begin_transaction()
    await write(producer, b"begun")
    await stage.restart_node()
    await write(producer, b"ended")
    await producer.commit_transaction()
    assert await stage.committed() == each(b"before", b"begun", b"ended")


@on_stage(1)
async def test_transactions_of_version_2_follow_those_of_version_1_when_the_cluster_is_upgraded(stage: Stage) -> None:
    producer = await stage.producer("id")
    await transact(producer, b"1")
    async with await stage.client() as client:
        await update_features(client, {"transaction.version": FeatureUpdate(2)})
    await stage.restart_node()
    await transact(producer, b"2")
    await transact(producer, b"3")
    assert await stage.committed() == each(b"1", b"2", b"3")


@on_stage(2)
async def test_records_are_sent_within_transactions_only(stage: Stage) -> None:
    producer = await stage.producer("id")
    with pytest.raises(IllegalState, match="begin_transaction"):
        await producer.send(TOPIC, b"x", partition=0)
    with pytest.raises(IllegalState, match="begin_transaction"):
        await producer.commit_transaction()


# ---- two phases


@pytest.mark.parametrize("is_its_own", [True, False])
@on_stage(2)
async def test_a_prepared_transaction_is_completed_by_its_state(stage: Stage, is_its_own: bool) -> None:
    producer = await stage.writer(transaction_two_phase_commit_enable=True)
    state = await producer.prepare_transaction()
    assert await stage.committed() == each()
    await producer.complete_transaction(state if is_its_own else PreparedTxnState())
    assert await stage.committed() == (each(b"x") if is_its_own else each())
    await transact(producer, b"next")


@pytest.mark.parametrize("is_its_own", [True, False])
@BOTH
async def test_a_prepared_transaction_outlives_its_producer_and_the_node(stage: Stage, is_its_own: bool) -> None:
    producer = await stage.writer(transaction_two_phase_commit_enable=True)
    stored = str(await producer.prepare_transaction())
    await producer.close()
    await stage.restart_node()
    await asyncio.sleep(300)
    successor = await stage.producer("id", transaction_two_phase_commit_enable=True, keep_prepared=True)
    state = PreparedTxnState.parse(stored) if is_its_own else PreparedTxnState()
    await successor.complete_transaction(state)
    await transact(successor, b"next")
    assert await stage.committed() == (each(b"x", b"next") if is_its_own else each(b"next"))


@on_stage(2)
async def test_a_successor_without_keep_prepared_aborts_the_prepared_transaction(stage: Stage) -> None:
    producer = await stage.writer(transaction_two_phase_commit_enable=True)
    await producer.prepare_transaction()
    successor = await stage.producer("id", transaction_two_phase_commit_enable=True)
    await transact(successor, b"next")
    assert await stage.committed() == each(b"next")


@on_stage(2)
async def test_a_transaction_that_was_completed_before_the_crash_is_completed_once(stage: Stage) -> None:
    producer = await stage.writer(transaction_two_phase_commit_enable=True)
    state = await producer.prepare_transaction()
    await producer.complete_transaction(state)
    successor = await stage.producer("id", transaction_two_phase_commit_enable=True, keep_prepared=True)
    await successor.complete_transaction(state)
    assert await stage.committed() == each(b"x")
