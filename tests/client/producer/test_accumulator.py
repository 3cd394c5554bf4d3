"""When a batch is due, which are drained, and what becomes of the memory. Time is a number that the test gives."""

import sys
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import Closed, NetworkFailed, RecordTooLarge
from cordwood.client.producer.accumulator import BATCH_OVERHEAD_BYTES, Accumulator, Readiness
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.settings import ProducerSettings
from cordwood.wire.batch_builder import BatchBuilder
from cordwood.wire.records import decode_batch

A, B, C = (TopicPartition("orders", index) for index in range(3))
LEADER = 1


def accumulator(*, wake: Callable[[], object] = lambda: None, **settings: Any) -> Accumulator:
    defaults = {"batch_size": 1000, "linger_ms": 100, "buffer_memory": 100_000, "delivery_timeout_ms": 10_000}
    return Accumulator(ProducerSettings(**{**defaults, **settings}), wake=wake)


def put(gathering: Accumulator, partition: TopicPartition, value: bytes = b"value", now_s: float = 0.0) -> Delivery:
    delivery = gathering.append(partition, 1, None, value, (), now_s)
    assert delivery is not None
    return delivery


def led(partition: TopicPartition) -> int | None:
    return LEADER


def ready(gathering: Accumulator, now_s: float) -> Readiness:
    return gathering.ready(led, now_s)


def drain(gathering: Accumulator, now_s: float = 0.0, max_bytes: int = 1_000_000) -> list[ProducerBatch]:
    return gathering.drain(LEADER, led, lambda partition: True, max_bytes, now_s)


def values(batch: ProducerBatch) -> list[bytes | None]:
    return [record.value for record in decode_batch(batch.encode(transactional=False))]


def test_nothing_is_due_without_batches() -> None:
    assert ready(accumulator(), 5.0) == Readiness(frozenset(), inf, frozenset())


def test_a_batch_is_due_when_it_has_lingered() -> None:
    gathering = accumulator()
    put(gathering, A, now_s=1.0)
    assert ready(gathering, 1.05) == Readiness(frozenset(), 1.1, frozenset())
    assert ready(gathering, 1.1).leaders == {LEADER}


def test_a_batch_is_due_when_the_next_has_begun() -> None:
    gathering = accumulator()
    put(gathering, A, b"x" * 600)
    assert not ready(gathering, 0.0).leaders
    put(gathering, A, b"x" * 600)
    assert ready(gathering, 0.0).leaders == {LEADER}


def test_a_record_larger_than_a_batch_gets_its_own_batch_and_is_due_at_once() -> None:
    gathering = accumulator()
    put(gathering, A, b"x" * 5000)
    assert ready(gathering, 0.0).leaders == {LEADER}


def test_a_flush_makes_everything_due_and_later_records_linger() -> None:
    gathering = accumulator()
    put(gathering, A)
    (flushed,) = gathering.begin_flush()
    assert ready(gathering, 0.0).leaders == {LEADER}
    assert drain(gathering) == [flushed]
    put(gathering, A)
    assert not ready(gathering, 0.0).leaders


def test_a_flush_waits_for_batches_in_flight_too() -> None:
    gathering = accumulator()
    put(gathering, A)
    (in_flight,) = drain(gathering)
    put(gathering, B)
    assert [batch.partition for batch in gathering.begin_flush()] == [A, B]
    gathering.release(in_flight)
    assert [batch.partition for batch in gathering.begin_flush()] == [B]


def test_everything_is_due_when_the_producer_closes_and_nothing_more_is_taken() -> None:
    gathering = accumulator()
    put(gathering, A)
    gathering.close()
    assert ready(gathering, 0.0).leaders == {LEADER}
    with pytest.raises(Closed):
        gathering.append(A, 1, None, b"late", (), 0.0)


def test_everything_is_due_when_memory_is_short() -> None:
    gathering = accumulator(buffer_memory=2000)
    put(gathering, A)
    assert gathering.append(B, 1, None, b"value", (), 0.0) is None
    assert not ready(gathering, 0.0).leaders, "nobody waits yet"
    gathering.reserve(None, b"value", (), lambda: None)
    assert ready(gathering, 0.0).leaders == {LEADER}


def test_a_record_uses_its_memory_reservation() -> None:
    gathering = accumulator(buffer_memory=2000)
    put(gathering, A)
    granted: list[bool] = []
    reservation = gathering.reserve(None, b"value", (), lambda: granted.append(True))
    (batch,) = drain(gathering)
    gathering.release(batch)
    assert granted == [True]
    assert gathering.append(B, 1, None, b"value", (), 0.0, reservation) is not None
    (batch,) = drain(gathering)
    gathering.release(batch)
    assert gathering.pool.free_bytes == 2000


def test_a_reservation_goes_back_when_a_batch_has_room_in_the_meantime() -> None:
    gathering = accumulator()
    put(gathering, A)
    reservation = gathering.reserve(None, b"value", (), lambda: None)
    free = gathering.pool.free_bytes
    assert gathering.append(A, 1, None, b"value", (), 0.0, reservation) is not None
    assert gathering.pool.free_bytes == free + reservation.size_bytes


@pytest.mark.parametrize("setting", ["max_request_size", "buffer_memory"])
def test_a_record_that_can_never_be_sent_is_refused_at_once(setting: str) -> None:
    settings: dict[str, Any] = {setting: 3000}
    gathering = accumulator(**settings)
    with pytest.raises(RecordTooLarge, match=f"larger than {setting}, which is 3000"):
        gathering.append(A, 1, None, b"x" * 3000, (), 0.0)
    with pytest.raises(RecordTooLarge):
        gathering.append(A, 1, None, None, [("trace", b"x" * 3000)], 0.0)
    assert gathering.pool.free_bytes == gathering.pool.total_bytes


def test_a_record_that_cannot_be_written_costs_no_memory() -> None:
    gathering = accumulator()
    with pytest.raises(ValueError, match="negative timestamp"):
        gathering.append(A, -5, None, b"value", (), 0.0)
    assert gathering.pool.free_bytes == gathering.pool.total_bytes
    assert gathering.waiting() == {}


def test_a_batch_sent_before_it_is_full_releases_unused_memory() -> None:
    gathering = accumulator(batch_size=50_000)
    put(gathering, A)
    assert gathering.pool.free_bytes == 50_000 - BATCH_OVERHEAD_BYTES
    (batch,) = drain(gathering)
    assert gathering.pool.free_bytes == 100_000 - BATCH_OVERHEAD_BYTES - batch.size_bytes
    gathering.release(batch)
    assert gathering.pool.free_bytes == 100_000


def test_one_batch_of_each_partition_is_drained_at_a_time() -> None:
    gathering = accumulator()
    for partition in (A, B, A, B):
        put(gathering, partition, b"x" * 600)
    assert [batch.partition for batch in drain(gathering)] == [A, B]
    assert gathering.waiting() == {A: 1, B: 1}


def test_a_drain_resumes_where_the_last_one_ended() -> None:
    gathering = accumulator()
    for partition in (A, B, C) * 2:
        put(gathering, partition, b"x" * 600)
    drained = [[batch.partition for batch in drain(gathering, max_bytes=1400)] for _ in range(3)]
    assert drained == [[A, B], [C, A], [B, C]]


def test_a_batch_larger_than_a_request_goes_alone() -> None:
    gathering = accumulator()
    put(gathering, A, b"x" * 5000)
    put(gathering, B)
    assert [batch.partition for batch in drain(gathering, max_bytes=1000)] == [A]


def test_only_the_leaders_own_partitions_are_drained() -> None:
    gathering = accumulator()
    put(gathering, A)
    put(gathering, B)
    leaders = {A: 1, B: 2}
    assert gathering.ready(leaders.get, 1.0).leaders == {1, 2}
    assert [batch.partition for batch in gathering.drain(2, leaders.get, lambda _: True, 10_000, 1.0)] == [B]


def test_a_partition_that_may_not_be_sent_is_neither_due_nor_drained() -> None:
    gathering = accumulator()
    put(gathering, A)
    assert not gathering.ready(led, 1.0, lambda partition: False).leaders
    assert gathering.drain(LEADER, led, lambda partition: False, 10_000, 1.0) == []


def test_topics_without_a_leader_are_named() -> None:
    gathering = accumulator()
    put(gathering, A)
    readiness = gathering.ready(lambda partition: None, 1.0)
    assert not readiness.leaders
    assert readiness.leaderless == {"orders"}


def test_requeued_batches_stay_in_front_and_wait_for_their_back_off() -> None:
    gathering = accumulator()
    put(gathering, A, b"1" * 600)
    put(gathering, A, b"2" * 600)
    put(gathering, A, b"3" * 600)
    first, second = drain(gathering)[0], drain(gathering)[0]
    gathering.requeue([second], 1.0, 0.5)
    gathering.requeue([first], 1.2, 0.5)
    assert ready(gathering, 1.6) == Readiness(frozenset(), 1.7, frozenset())
    assert drain(gathering, 1.6) == []
    assert drain(gathering, 1.7) == [first]
    assert drain(gathering, 1.7) == [second]
    assert first.attempts == 1


def test_requeued_batches_accept_no_records() -> None:
    gathering = accumulator()
    put(gathering, A, b"1")
    (batch,) = drain(gathering)
    gathering.requeue([batch], 0.0, 0.0)
    put(gathering, A, b"2")
    assert [values(each) for each in (drain(gathering) + drain(gathering))] == [[b"1"], [b"2"]]


def test_parts_of_a_split_batch_replace_it() -> None:
    gathering = accumulator()
    for value in (b"1", b"2"):
        put(gathering, A, value)
    (batch,) = drain(gathering)
    put(gathering, A, b"3")
    parts = batch.split()
    gathering.requeue(parts, 0.0, 0.0)
    flushed = gathering.begin_flush()
    assert batch not in flushed
    assert len(flushed) == 3
    drained = [drain(gathering)[0] for _ in range(3)]
    assert [values(each) for each in drained] == [[b"1"], [b"2"], [b"3"]]
    for each in drained:
        gathering.release(each)
    assert gathering.pool.free_bytes == gathering.pool.total_bytes


def test_batches_past_the_delivery_timeout_expire_in_order_and_on_time() -> None:
    gathering = accumulator(linger_ms=60_000)
    put(gathering, A, b"1" * 600, now_s=1.0)
    put(gathering, A, b"2" * 600, now_s=2.0)
    put(gathering, A, b"3" * 600, now_s=5.0)
    assert gathering.ready(lambda partition: None, 5.0).next_check_s == 11.0
    assert gathering.expire(10.9) == []
    expired = gathering.expire(12.0)
    assert [values(batch)[0] for batch in expired] == [b"1" * 600, b"2" * 600]
    assert gathering.ready(lambda partition: None, 12.0).next_check_s == 15.0
    assert len(gathering.expire(15.0)) == 1
    assert gathering.waiting() == {}
    assert ready(gathering, 15.0).next_check_s == inf


def test_retried_batches_expire_by_their_creation_time() -> None:
    gathering = accumulator()
    put(gathering, A, now_s=1.0)
    (batch,) = drain(gathering, 1.0)
    assert gathering.expire(12.0) == []
    gathering.requeue([batch], 12.0, 0.1)
    assert gathering.expire(12.0) == [batch]


def test_an_abort_takes_out_batches_that_are_not_in_flight() -> None:
    gathering = accumulator()
    put(gathering, A, b"1" * 600)
    put(gathering, A, b"2" * 600)
    put(gathering, B, b"3")
    in_flight = drain(gathering)
    gathering.requeue(in_flight[:1], 0.0, 0.0)
    aborted = gathering.abort(undrained_only=True)
    assert [values(batch)[0] for batch in aborted] == [b"2" * 600]
    assert gathering.abort() == in_flight[:1]
    assert gathering.waiting() == {}
    for batch in (*aborted, *in_flight):
        batch.fail(NetworkFailed("aborted"))
        gathering.release(batch)
    assert gathering.pool.free_bytes == gathering.pool.total_bytes


def shut(gathering: Accumulator, partition: TopicPartition, what_happens: Callable[[], object]) -> bool:
    """True if the open batch accepts nothing more."""
    batch = gathering.open_batch(partition)
    assert batch is not None
    assert batch.append(1, None, b"before", ()) is not None
    what_happens()
    return batch.append(1, None, b"after", ()) is None


def test_a_batch_that_leaves_its_queue_takes_nothing_more() -> None:
    gathering = accumulator()
    put(gathering, A)
    assert shut(gathering, A, lambda: drain(gathering))
    put(gathering, A)
    assert shut(gathering, A, lambda: gathering.expire(20.0))
    put(gathering, A)
    assert shut(gathering, A, gathering.abort)


def test_a_batch_that_another_follows_takes_nothing_more_though_it_has_room() -> None:
    gathering = accumulator()
    put(gathering, A)
    assert shut(gathering, A, lambda: put(gathering, A, b"x" * 950))
    builder = BatchBuilder(1000)
    builder.append(1, None, b"ready made", ())
    put(gathering, B)
    assert shut(gathering, B, lambda: gathering.append_batch(B, builder.seal(), 0.0))


def test_a_closing_producer_appends_nothing_to_open_batches() -> None:
    gathering = accumulator()
    put(gathering, A)
    assert shut(gathering, A, gathering.close)


def test_nothing_is_released_twice() -> None:
    gathering = accumulator()
    put(gathering, A)
    (batch,) = drain(gathering)
    gathering.release(batch)
    with pytest.raises(AssertionError, match="released twice"):
        gathering.release(batch)


def test_the_sender_is_woken_for_a_new_batch_and_not_for_every_record() -> None:
    woken: list[bool] = []
    gathering = accumulator(wake=lambda: woken.append(True))
    put(gathering, A)
    put(gathering, A)
    assert len(woken) == 1
    put(gathering, A, b"x" * 950)
    assert len(woken) == 2


def test_a_leader_is_slow_while_it_does_not_take_due_batches() -> None:
    gathering = accumulator(partitioner_availability_timeout_ms=200)
    put(gathering, A)
    ready(gathering, 1.0)
    ready(gathering, 1.15)
    assert not gathering.is_slow(LEADER, 1.2)
    assert gathering.is_slow(LEADER, 1.3)
    drain(gathering, 1.3)
    assert not gathering.is_slow(LEADER, 1.3)


def test_an_interrupt_at_any_step_of_a_new_batch_leaves_its_memory_accounted_for() -> None:
    for step in range(1, 1000):
        gathering = accumulator()
        was_interrupted = interrupted_at(step, lambda gathering=gathering: put(gathering, A))  # type: ignore[misc]
        # Whether or not it was taken, the next continues, and all memory comes back.
        put(gathering, A, b"next")
        for batch in drain(gathering):
            assert values(batch)[-1] == b"next"
            gathering.release(batch)
        assert gathering.pool.free_bytes == 100_000
        assert not gathering.begin_flush()
        if not was_interrupted:
            assert step > 20, "there are many steps"
            return


def interrupted_at(step: int, call: Callable[[], object]) -> bool:
    """Calls, and has it interrupted before that line of what makes a batch and puts it in its queue."""
    left = step

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        if frame.f_code.co_qualname.startswith(("ProducerBatch.", "Outcome.", "Delivery.", "Accumulator._enqueue")):
            left -= event == "line"
            if not left:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
