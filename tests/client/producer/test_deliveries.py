"""Promises of `send`: completed once per record, whatever happens to the batch."""

import asyncio
import logging
import threading
from collections.abc import Sequence

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError, IllegalState, NetworkFailed, TimedOut
from cordwood.client.producer.batch import Packing, ProducerBatch
from cordwood.client.producer.deliveries import Delivery, RecordMetadata
from cordwood.wire.errors import ErrorCode

HERE = TopicPartition("orders", 3)


def batch_of(*values: bytes, packing: Packing | None = None) -> tuple[ProducerBatch, Sequence[Delivery]]:
    batch = ProducerBatch(HERE, packing or Packing(10_000), 0.0, (1,), 10_000)
    deliveries = [batch.append(1000 + index, None, value, ()) for index, value in enumerate(values)]
    return batch, [delivery for delivery in deliveries if delivery is not None]


def test_each_record_knows_its_own_offset_time_and_sizes() -> None:
    batch, (first, second) = batch_of(b"a", b"bb")
    assert not first.done()
    batch.complete(70, -1)
    assert first.done()
    assert first.result() == RecordMetadata("orders", 3, 70, 1000, -1, 1)
    assert second.result() == RecordMetadata("orders", 3, 71, 1001, -1, 2)


def test_the_brokers_time_goes_before_the_records_own() -> None:
    batch, (delivery,) = batch_of(b"a")
    batch.complete(70, 5555)
    assert delivery.result().timestamp == 5555


def test_an_offset_missing_in_the_response_is_unknown() -> None:
    batch, (_, second) = batch_of(b"a", b"b")
    batch.complete(-1, -1)
    assert second.result().offset == -1


def test_a_failure_is_raised_for_each_record() -> None:
    batch, (first, second) = batch_of(b"a", b"b")
    reason = NetworkFailed("gone")
    batch.fail(reason)
    assert first.exception() is reason
    with pytest.raises(NetworkFailed):
        second.result()


def test_a_shared_failure_does_not_collect_the_tracebacks_of_all_callers() -> None:
    batch, deliveries = batch_of(b"a", b"b")
    error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not yours", "t-0")
    error.__cause__ = cause = ValueError("because")
    batch.fail(error)
    for delivery in deliveries:
        with pytest.raises(BrokerError, match="not yours") as raised:
            delivery.result()
        assert raised.value.code == error.code
        assert raised.value.__cause__ is cause
    assert error.__traceback__ is None


def test_a_record_that_is_to_blame_has_its_own_reason() -> None:
    batch, (first, second) = batch_of(b"a", b"b")
    blamed = BrokerError(ErrorCode.INVALID_RECORD, "no key")
    batch.fail(NetworkFailed("another record of the batch was refused"), {1: blamed})
    assert isinstance(first.exception(), NetworkFailed)
    assert second.exception() is blamed


def test_callbacks_are_called_once_in_the_order_of_the_records() -> None:
    batch, (first, second) = batch_of(b"a", b"b")
    called: list[int] = []
    first.add_done_callback(lambda delivery: called.append(delivery.result().offset))
    second.add_done_callback(lambda delivery: called.append(delivery.result().offset))
    assert called == []
    batch.complete(10, -1)
    assert called == [10, 11]
    first.add_done_callback(lambda delivery: called.append(delivery.result().offset))
    assert called == [10, 11, 10]


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
def test_a_failing_callback_does_not_affect_others(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    batch, (first, second) = batch_of(b"a", b"b")
    called: list[Delivery] = []

    def fail(delivery: Delivery) -> None:
        raise error

    first.add_done_callback(fail)
    second.add_done_callback(called.append)
    with caplog.at_level(logging.ERROR):
        batch.complete(10, -1)
    assert called == [second]
    assert error.__name__ in caplog.text


async def awaited(delivery: Delivery) -> RecordMetadata:
    return await delivery


def test_a_delivery_is_awaited() -> None:
    async def scenario() -> None:
        batch, (first, second) = batch_of(b"a", b"b")
        tasks = [asyncio.create_task(awaited(delivery)) for delivery in (first, second, first)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        batch.complete(10, -1)
        assert (await tasks[0]).offset == 10
        assert (await tasks[1]).offset == 11
        assert (await first).offset == 10

    asyncio.run(scenario())


def test_an_awaited_delivery_raises_why_the_record_was_given_up() -> None:
    async def scenario() -> None:
        batch, (delivery,) = batch_of(b"a")
        task = asyncio.create_task(awaited(delivery))
        await asyncio.sleep(0)
        batch.fail(NetworkFailed("gone"))
        with pytest.raises(NetworkFailed):
            await task

    asyncio.run(scenario())


def test_blocking_on_a_result_is_refused_if_blocking_is_not_allowed() -> None:
    _, (delivery,) = batch_of(b"a")
    with pytest.raises(IllegalState, match="await"):
        delivery.result()


def test_a_thread_waits_until_the_record_is_delivered() -> None:
    batch, deliveries = batch_of(b"a", b"b", packing=Packing(10_000, new_event=threading.Event))
    results: list[RecordMetadata] = []
    threads = [threading.Thread(target=lambda each=each: results.append(each.result(30))) for each in deliveries]
    for thread in threads:
        thread.start()
    batch.complete(10, -1)
    for thread in threads:
        thread.join()
    assert sorted(result.offset for result in results) == [10, 11]


def test_a_thread_waits_no_longer_than_it_says() -> None:
    _, (delivery,) = batch_of(b"a", packing=Packing(10_000, new_event=threading.Event))
    with pytest.raises(TimedOut):
        delivery.result(0)
    with pytest.raises(TimedOut):
        delivery.result(0.001)


def test_a_delivery_of_the_sync_client_can_be_awaited_too() -> None:
    async def scenario() -> None:
        batch, (delivery,) = batch_of(b"a", packing=Packing(10_000, new_event=threading.Event))
        task = asyncio.create_task(awaited(delivery))
        await asyncio.sleep(0)
        await asyncio.to_thread(batch.complete, 10, -1)
        assert (await task).offset == 10

    asyncio.run(scenario())


def test_parts_of_a_split_batch_complete_its_records_in_their_place() -> None:
    batch, deliveries = batch_of(b"a", b"b", b"c")
    whole: list[ProducerBatch] = []
    told: list[int] = []
    batch.on_done(whole.append)
    for delivery in deliveries:
        delivery.add_done_callback(lambda each: told.append(each.result().offset))
    first, second = batch.split()
    assert first.record_count + second.record_count == 3
    second.complete(90, -1)
    assert told == [90 + index for index in range(second.record_count)]
    assert whole == []
    inner, outer = second, first
    if first.record_count > 1:
        inner, outer = outer.split()
        inner.complete(50, -1)
        outer.complete(60, -1)
        expected = [50, 60, 90]
    else:
        first.complete(50, -1)
        expected = [50, 90, 91]
    assert [delivery.result().offset for delivery in deliveries] == expected
    assert sorted(told) == expected
    assert whole == [batch]


def test_a_callback_added_after_a_split_waits_for_the_records_own_part() -> None:
    batch, (first, second) = batch_of(b"a", b"b")
    parts = batch.split()
    told: list[Delivery] = []
    second.add_done_callback(told.append)
    first.add_done_callback(told.append)
    parts[1].fail(NetworkFailed("gone"))
    assert told == [second]
    assert isinstance(second.exception(), ClientError)
    assert not first.done()
    parts[0].complete(1, -1)
    assert told == [second, first]


def test_parts_keep_order_sequence_and_identity_and_share_the_memory() -> None:
    batch, _ = batch_of(b"a" * 100, b"b", b"c" * 100)
    batch.base_sequence = 2**31 - 1
    first, second = batch.split()
    assert first.place < second.place
    assert (first.base_sequence, second.base_sequence) == (2**31 - 1, first.record_count - 1)
    assert first.held_bytes + second.held_bytes == 10_000


def test_waiting_and_completing_threads_lose_no_wakeup() -> None:
    """A callback added while the batch is being completed runs once, in either thread."""
    for _ in range(200):
        batch, (delivery,) = batch_of(b"a", packing=Packing(10_000, new_event=threading.Event))
        told: list[Delivery] = []
        barrier = threading.Barrier(2)

        def add(delivery: Delivery = delivery, told: list[Delivery] = told, at: threading.Barrier = barrier) -> None:
            at.wait()
            delivery.add_done_callback(told.append)

        thread = threading.Thread(target=add)
        thread.start()
        barrier.wait()
        batch.complete(1, -1)
        thread.join()
        assert told == [delivery]
