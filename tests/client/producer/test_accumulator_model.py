"""Any order of what applications and a sender do: order, bounds, and each record completed once. In virtual time."""

from collections import Counter
from dataclasses import dataclass
from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import NetworkFailed
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.buffer_pool import Reservation
from cordwood.client.producer.deliveries import Delivery
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.shortcut import OpenBatch
from cordwood.wire.batch_builder import BatchBuilder
from cordwood.wire.compression import Codec
from cordwood.wire.records import decode_batch

PARTITIONS = [TopicPartition("t", index) for index in range(4)]
MAX_REQUEST_BYTES = 2500
MAX_IN_FLIGHT = 3
LINGER_S = 0.1
TIMEOUT_S = 10.0


def leader_of(partition: TopicPartition) -> int | None:
    return (1, 1, 2, None)[partition.partition]


@dataclass
class Waiter:
    partition: TopicPartition
    value: bytes
    reservation: Reservation


class Producing(RuleBasedStateMachine):
    """The values of a partition are numbers that grow, so that order can be seen."""

    @initialize(codec=st.sampled_from([Codec.NONE, Codec.LZ4]), batch_size=st.sampled_from([0, 300, 1000]))
    def begin(self, codec: Codec, batch_size: int) -> None:
        configured = ProducerSettings(
            batch_size=batch_size,
            linger_ms=100,
            buffer_memory=40_000,
            max_request_size=2000,
            delivery_timeout_ms=10_000,
        )
        self.now_s = 0.0
        self.gathering = Accumulator(configured, codec)
        self.next_number = 0
        self.sent: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
        self.deliveries: dict[int, Delivery] = {}
        self.completions: Counter[int] = Counter()
        self.waiters: list[Waiter] = []
        self.in_flight: list[ProducerBatch] = []
        self.first_record: dict[tuple[int, ...], int] = {}
        self.passed_over: Counter[TopicPartition] = Counter()
        self.known_open: dict[TopicPartition, OpenBatch] = {}

    @rule(records=st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 1500)), min_size=1, max_size=10))
    def send(self, records: list[tuple[TopicPartition, int]]) -> None:
        for partition, size in records:
            self.send_one(partition, size)

    def send_one(self, partition: TopicPartition, size: int) -> None:
        value = b"%d " % self.next_number + b"x" * size
        delivery = self.gathering.append(partition, 1, None, value, (), self.now_s)
        if delivery is None:
            reservation = self.gathering.reserve(None, value, (), lambda: None)
            self.waiters.append(Waiter(partition, value, reservation))
            self.next_number += 1
        else:
            self.taken(partition, value, delivery)
            self.next_number += 1

    @rule(partition=st.sampled_from(PARTITIONS), count=st.integers(1, 5))
    def send_ready_made(self, partition: TopicPartition, count: int) -> None:
        builder = BatchBuilder(10_000)
        numbers = range(self.next_number, self.next_number + count)
        for number in numbers:
            builder.append(1, None, b"%d " % number, ())
        batch = self.gathering.append_batch(partition, builder.seal(), self.now_s)
        if batch is not None:
            self.next_number += count
            self.sent[partition] += numbers
            batch.on_done(lambda _: self.completions.update(numbers))

    @precondition(lambda self: any(waiter.reservation.is_granted for waiter in self.waiters))
    @rule(data=st.data())
    def send_at_last(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from([each for each in self.waiters if each.reservation.is_granted]))
        self.waiters.remove(waiter)
        delivery = self.gathering.append(waiter.partition, 1, None, waiter.value, (), self.now_s, waiter.reservation)
        assert delivery is not None
        self.taken(waiter.partition, waiter.value, delivery)

    @precondition(lambda self: self.waiters)
    @rule(data=st.data())
    def give_up_waiting(self, data: st.DataObject) -> None:
        waiter = data.draw(st.sampled_from(self.waiters))
        self.waiters.remove(waiter)
        waiter.reservation.cancel()

    @rule(partition=st.sampled_from(PARTITIONS), size=st.integers(0, 500))
    def send_by_the_shortcut(self, partition: TopicPartition, size: int) -> None:
        """Into the batch that was open when a record last went the long way, whatever became of it since."""
        batch = self.known_open.get(partition)
        value = b"%d " % self.next_number + b"x" * size
        delivery = batch.append(1, None, value, ()) if batch is not None else None
        if delivery is not None:
            self.taken(partition, value, delivery)
            self.next_number += 1

    def taken(self, partition: TopicPartition, value: bytes, delivery: Delivery) -> None:
        batch = self.gathering.open_batch(partition)
        assert batch is not None
        self.known_open[partition] = batch
        number = int(value.split()[0])
        self.sent[partition].append(number)
        self.deliveries[number] = delivery
        delivery.add_done_callback(lambda _: self.completions.update([number]))

    @rule(leader=st.sampled_from([1, 2]))
    def drain(self, leader: int) -> None:
        flying = Counter(batch.partition for batch in self.in_flight)
        could = [
            partition
            for partition, queue in self.gathering._queues.items()
            if leader_of(partition) == leader
            and flying[partition] < MAX_IN_FLIGHT
            and queue[0].not_before_s <= self.now_s
        ]
        drained = self.gathering.drain(
            leader, leader_of, lambda partition: flying[partition] < MAX_IN_FLIGHT, MAX_REQUEST_BYTES, self.now_s
        )
        partitions = [batch.partition for batch in drained]
        assert set(partitions) <= set(could)
        assert len(set(partitions)) == len(partitions)
        assert bool(drained) == bool(could)
        assert len(drained) <= 1 or sum(batch.size_bytes for batch in drained) <= MAX_REQUEST_BYTES
        self.in_flight += drained
        for batch in drained:
            self.check_order(batch)
        for partition in could:
            self.passed_over[partition] = 0 if partition in partitions else self.passed_over[partition] + 1
            # Each leader has at most two partitions here: the other one goes first at most once.
            assert self.passed_over[partition] <= 1

    def check_order(self, batch: ProducerBatch) -> None:
        """Within a batch and from batch to batch records are in the order of `send`, whatever came back before."""
        records = decode_batch(batch.encode(transactional=False))
        order = [self.sent[batch.partition].index(int((record.value or b"").split()[0])) for record in records]
        assert order == list(range(order[0], order[0] + len(order)))
        for other in self.in_flight:
            if other.partition == batch.partition and other.place < batch.place:
                assert self.first_record[other.place] < order[0]
        self.first_record[batch.place] = order[0]
        assert all(later.place > batch.place for later in self.gathering._queues.get(batch.partition, ()))

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), what=st.sampled_from(["acknowledge", "retry", "retry", "split", "split", "fail"]))
    def answer(self, data: st.DataObject, what: str) -> None:
        batch = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        if what == "split" and batch.record_count > 1:
            self.gathering.requeue(batch.split(), self.now_s, 0.0)
        elif what in ("retry", "split"):
            self.gathering.requeue([batch], self.now_s, 0.3)
        elif what == "fail":
            batch.fail(NetworkFailed("refused"))
            self.gathering.release(batch)
        else:
            batch.complete(0, -1)
            self.gathering.release(batch)

    @rule()
    def expire(self) -> None:
        for batch in self.gathering.expire(self.now_s):
            assert batch.created_s + TIMEOUT_S <= self.now_s
            batch.fail(NetworkFailed("too old"))
            self.gathering.release(batch)
        for queue in self.gathering._queues.values():
            assert queue[0].created_s + TIMEOUT_S > self.now_s

    @rule(seconds=st.sampled_from([0.05, 0.1, 0.3, 0.3, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def flush(self) -> None:
        batches = self.gathering.begin_flush()
        assert {batch.place for batch in batches} >= {batch.place for batch in self.in_flight}
        assert not any(batch.is_done for batch in batches)

    @rule(chance=st.integers(0, 9))
    def abort(self, chance: int) -> None:
        if chance < 9:
            return
        for batch in self.gathering.abort():
            batch.fail(NetworkFailed("aborted"))
            self.gathering.release(batch)
        assert self.gathering.waiting() == {}

    @invariant()
    def memory_is_bounded_and_accounted_for(self) -> None:
        if not hasattr(self, "gathering"):
            return
        pool = self.gathering.pool
        waiting = [batch for queue in self.gathering._queues.values() for batch in queue]
        held = sum(batch.held_bytes for batch in (*waiting, *self.in_flight))
        granted = sum(each.reservation.size_bytes for each in self.waiters if each.reservation.is_granted)
        assert held + granted + pool.free_bytes == pool.total_bytes
        assert pool.free_bytes >= 0
        # Parts share what the whole had, though each has its own header.
        assert all(batch.size_bytes <= batch.held_bytes for batch in waiting if len(batch.place) == 1)

    @invariant()
    def what_is_due_is_seen_and_the_rest_is_asked_for_in_time(self) -> None:
        if not hasattr(self, "gathering"):
            return
        readiness = self.gathering.ready(leader_of, self.now_s)
        is_urgent = self.gathering.pool.is_short
        next_check_s = inf
        due = set()
        for partition, queue in self.gathering._queues.items():
            head = queue[0]
            next_check_s = min(next_check_s, head.created_s + TIMEOUT_S)
            leader = leader_of(partition)
            if leader is None:
                assert readiness.leaderless == {"t"}
                continue
            in_a_hurry = is_urgent or head.attempts or head.is_flushed or head.is_full or len(queue) > 1
            due_s = head.not_before_s if in_a_hurry else head.created_s + LINGER_S
            if due_s <= self.now_s:
                due.add(leader)
            else:
                next_check_s = min(next_check_s, due_s)
        assert readiness.leaders == due
        assert readiness.next_check_s <= next_check_s or due

    @invariant()
    def nothing_is_completed_twice(self) -> None:
        if hasattr(self, "gathering"):
            assert all(count == 1 for count in self.completions.values())
            assert all(self.deliveries[number].done() for number in self.completions if number in self.deliveries)

    def teardown(self) -> None:
        """The producer closes: the rest is completed, and all memory is back."""
        if not hasattr(self, "gathering"):
            return
        for waiter in self.waiters:
            waiter.reservation.cancel()
        self.gathering.close()
        for batch in (*self.in_flight, *self.gathering.abort()):
            batch.fail(NetworkFailed("closed"))
            self.gathering.release(batch)
        assert self.gathering.pool.free_bytes == self.gathering.pool.total_bytes
        assert self.gathering.begin_flush() == []
        everything = [number for numbers in self.sent.values() for number in numbers]
        assert self.completions == Counter(everything)


TestProducing = Producing.TestCase
TestProducing.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
