"""Fetch planning and response handling; one rule at a time, and by random histories: in every case the application gets
each record once and in order, within the memory limits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.consumer.fetches.buffers import Buffers
from cordwood.client.consumer.fetches.fetching import Fetching, FetchOrder, Findings
from cordwood.client.consumer.offsets.positions import PartitionState, Phase
from cordwood.client.consumer.offsets.reset_strategy import ResetKind
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.errors import AuthorizationFailed, NetworkFailed, OffsetOutOfRange
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from tests.client.fetched_data import P0, P1, P2, TOPIC_ID, batch, cluster, partition_data

SMALL = ConsumerSettings(max_partition_fetch_bytes=100, fetch_max_bytes=300, auto_offset_reset="earliest")


class Stage:
    """A consumer's planning, with the application and the brokers in the test's hands."""

    def __init__(
        self, *partitions: TopicPartition, settings: ConsumerSettings = SMALL, known: Cluster | None = None
    ) -> None:
        self.cluster = known if known is not None else cluster(1, 1, 1)
        self.now_s = 0.0
        self.subscription = Subscription()
        self.subscription.assign(partitions)
        self.buffers = Buffers(self.subscription, drained=lambda: None, taken=lambda count: None)
        self.fetching = Fetching(settings, self.subscription, self.buffers, Backoff(100, 1000, SeededRandom(0)))
        for partition in partitions:
            self.state(partition).seek(0)

    def state(self, partition: TopicPartition) -> PartitionState:
        return self.subscription.states[partition]

    def plan(self) -> list[FetchOrder]:
        return self.fetching.plan(self.cluster, self.now_s)[0]

    def order(self) -> FetchOrder:
        [order] = self.plan()
        return order

    def answer(self, order: FetchOrder, *told: PartitionData, error: int = 0) -> Findings:
        """Partitions missing from the response have nothing new."""
        numbers = {data.partition_index for data in told}
        rest = [
            partition_data(None, partition=each.partition) for each in order.offsets if each.partition not in numbers
        ]
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[*told, *rest])
        response = FetchResponse(session_id=9, error_code=error, responses=[topic])
        return self.fetching.take(order, response, self.now_s)

    def read(self, *partitions: TopicPartition, most: int = 1000) -> dict[TopicPartition, list[int]]:
        taken = self.buffers.take(partitions, most)
        return {partition: [record.offset for record in records] for partition, records in taken.items()}


def test_each_broker_is_asked_for_the_partitions_it_leads() -> None:
    stage = Stage(P0, P1, P2, known=cluster(1, 2, 1))
    assert {order.broker_id: set(order.offsets) for order in stage.plan()} == {1: {P0, P2}, 2: {P1}}


def test_a_broker_has_one_request_at_a_time() -> None:
    stage = Stage(P0, P1)
    order = stage.order()
    assert stage.plan() == []
    stage.answer(order)
    assert len(stage.plan()) == 1


def test_the_next_fetch_starts_after_buffered_records() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0, 1, 2)))
    assert stage.order().offsets == {P0: 3}
    assert stage.state(P0).offset == 0


def test_a_partition_of_which_enough_is_buffered_is_not_requested() -> None:
    stage = Stage(P0, P1)
    stage.answer(stage.order(), partition_data(batch(*range(10))))
    order = stage.order()
    assert set(order.offsets) == {P1}
    stage.answer(order)
    stage.read(P0)
    assert set(stage.order().offsets) == {P0, P1}


def test_while_a_partition_is_full_its_broker_waits_shortly_for_the_others_and_longer_each_time() -> None:
    stage = Stage(P0, P1)
    stage.answer(stage.order(), partition_data(batch(*range(10))))
    waits = []
    for _ in range(8):
        order = stage.order()
        waits.append(order.request.max_wait_ms)
        stage.answer(order)
    assert waits == [10, 20, 40, 80, 160, 320, 500, 500]
    stage.read()
    assert stage.order().request.max_wait_ms == 500


def test_paused_partitions_are_not_requested_and_not_given() -> None:
    stage = Stage(P0, P1)
    stage.answer(stage.order(), partition_data(batch(0)))
    stage.state(P0).paused = True
    assert set(stage.order().offsets) == {P1}
    assert stage.read() == {}
    stage.state(P0).paused = False
    assert stage.read() == {P0: [0]}


def test_an_answer_for_a_partition_that_has_moved_is_dropped() -> None:
    stage = Stage(P0)
    order = stage.order()
    stage.state(P0).seek(50)
    stage.answer(order, partition_data(batch(0, 1)))
    assert stage.read() == {}
    assert stage.order().offsets == {P0: 50}


def test_buffered_and_in_flight_bytes_stay_within_the_limit() -> None:
    stage = Stage(P0, P1, P2, known=cluster(1, 2, 2))
    requested = sum(order.request.max_bytes for order in stage.plan())
    # The first has all the room, of which it can use one partition's share.
    assert requested == 300 + 200


def test_buffers_of_paused_partitions_are_dropped_when_room_is_short() -> None:
    stage = Stage(P0, P1, settings=replace(SMALL, max_partition_fetch_bytes=300))
    stage.answer(stage.order(), partition_data(batch(*range(20))))
    stage.state(P0).paused = True
    assert set(stage.order().offsets) == {P1}
    assert stage.buffers.total_bytes == 0
    stage.state(P0).paused = False
    assert stage.state(P0).fetch_offset == 0


def test_a_poll_for_one_partition_succeeds_with_full_buffers() -> None:
    stage = Stage(P0, P1, settings=replace(SMALL, max_partition_fetch_bytes=300))
    stage.answer(stage.order(), partition_data(batch(*range(20))))
    assert stage.plan() == []
    stage.fetching.hungry_for = frozenset({P1})
    order = stage.order()
    assert set(order.offsets) == {P1}
    stage.answer(order, partition_data(batch(0), partition=1))
    assert stage.plan() == []
    assert stage.read(P1) == {P1: [0]}


def test_nothing_is_left_to_read_in_a_gap_that_compaction_left_at_the_end() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0, 1, 2), end=9))
    stage.answer(stage.order(), partition_data(None, end=9))
    assert stage.state(P0).lag(read_committed=False) == 9
    stage.read()
    assert (stage.state(P0).offset, stage.state(P0).lag(read_committed=False)) == (3, 0)


def test_a_partition_that_got_no_room_in_an_answer_has_something_left_to_read() -> None:
    stage = Stage(P0, P1)
    stage.answer(
        stage.order(),
        partition_data(batch(0), end=1),
        partition_data(None, partition=1, end=5),
    )
    assert stage.state(P1).lag(read_committed=False) == 5


def test_a_leader_that_names_a_nearer_replica_returns_no_data() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(None, end=5, preferred=2))
    assert stage.state(P0).lag(read_committed=False) == 5


def test_a_partition_with_an_error_rests_and_the_others_do_not() -> None:
    stage = Stage(P0, P1)
    findings = stage.answer(stage.order(), partition_data(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert findings.needs_metadata
    assert set(stage.order().offsets) == {P1}
    rest_s = stage.fetching.next_try_s(stage.now_s)
    assert rest_s is not None
    stage.now_s = rest_s
    assert stage.state(P0).is_fetchable(stage.now_s)


def test_a_broker_names_the_new_leader() -> None:
    stage = Stage(P0)
    told = partition_data(None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    told.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    assert stage.answer(stage.order(), told).leaders == {P0: (2, 7)}


def test_a_lost_broker_costs_its_partitions_a_rest_and_its_session() -> None:
    stage = Stage(P0)
    stage.answer(stage.order())
    order = stage.order()
    assert order.request.session_epoch == 1
    stage.fetching.failed(order, NetworkFailed("gone"), stage.now_s)
    assert stage.plan() == []
    stage.now_s += 10
    assert stage.order().request.session_epoch == 0


def test_an_offset_out_of_range_is_reset_by_the_strategy() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(None, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert stage.state(P0).phase is Phase.RESETTING
    assert stage.state(P0).reset_strategy.kind is ResetKind.EARLIEST


def test_without_a_reset_strategy_an_offset_out_of_range_is_raised() -> None:
    stage = Stage(P0, settings=replace(SMALL, auto_offset_reset="none"))
    assert stage.answer(stage.order(), partition_data(None, error=ErrorCode.OFFSET_OUT_OF_RANGE)).has_errors
    error = stage.state(P0).take_error()
    assert isinstance(error, OffsetOutOfRange)
    assert error.offsets == {P0: 0}


def test_buffered_records_are_read_before_offset_out_of_range_is_raised() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0)))
    stage.answer(stage.order(), partition_data(None, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert stage.read() == {P0: [0]}
    stage.now_s += 10
    stage.answer(stage.order(), partition_data(None, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert stage.state(P0).phase is Phase.RESETTING


def test_a_consumer_without_permission_gets_an_error() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert isinstance(stage.state(P0).take_error(), AuthorizationFailed)


def test_the_nearest_replica_is_asked_when_the_leader_names_it() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(None, preferred=2))
    assert stage.order().broker_id == 2


def test_a_replica_that_does_not_have_an_offset_yet_sends_back_to_the_leader() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(None, preferred=2))
    stage.answer(stage.order(), partition_data(None, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert stage.state(P0).phase is Phase.FETCHING
    assert stage.order().broker_id == 1


def test_a_new_leader_epoch_drops_buffers_and_validates_the_position() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0, 1, 2)))
    assert stage.read(most=2) == {P0: [0, 1]}
    stage.cluster = cluster(2, 2, 2, epoch=1)
    assert stage.plan() == []
    assert stage.state(P0).phase is Phase.VALIDATING
    assert stage.buffers.total_bytes == 0
    stage.state(P0).validated()
    assert stage.order().offsets == {P0: 2}


def test_a_seek_ends_an_iteration() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0, 1, 2)))
    handed = stage.buffers.hand((), 10)
    assert handed is not None
    _, records = handed
    assert next(records).offset == 0
    stage.buffers.discard(P0)
    assert list(records) == []


def test_an_iteration_leaves_the_rest_to_the_next_reader() -> None:
    stage = Stage(P0)
    stage.answer(stage.order(), partition_data(batch(0, 1, 2)))
    handed = stage.buffers.hand((), 10)
    assert handed is not None
    state, records = handed
    state.advance(next(records).offset + 1, 0)
    stage.buffers.stop_handing()
    assert list(records) == []
    assert stage.read() == {P0: [1, 2]}
    assert stage.state(P0).offset == 3


def test_partitions_take_turns() -> None:
    stage = Stage(P0, P1)
    order = stage.order()
    stage.answer(order, partition_data(batch(0, 1)), partition_data(batch(0, 1), partition=1))
    assert list(stage.read(most=3)) == [P0, P1]
    stage.answer(stage.order(), partition_data(batch(2)))
    assert list(stage.read()) == [P1, P0]


# ---- random histories

LOG_END = 30
LARGEST_BATCH_BYTES = 61 + 4 * 12
PARTITIONS = (P0, P1, P2)

steps = st.one_of(
    st.tuples(st.just("plan"), st.none()),
    st.tuples(st.just("answer"), st.lists(st.integers(0, 4), min_size=3, max_size=3)),
    st.tuples(st.just("fail"), st.none()),
    st.tuples(st.just("forget session"), st.none()),
    st.tuples(st.just("read"), st.integers(1, 9)),
    st.tuples(st.just("iterate"), st.integers(1, 9)),
    st.tuples(st.just("pause"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("resume"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("move leader"), st.sampled_from(PARTITIONS)),
    st.tuples(st.just("wait"), st.none()),
)


class History(Stage):
    """Each partition's log has the offsets up to LOG_END; the application remembers what it got."""

    def __init__(self) -> None:
        super().__init__(*PARTITIONS, known=cluster(1, 2, 1))
        self.leaders = [1, 2, 1]
        self.epoch = 0
        self.under_way: dict[int, FetchOrder] = {}
        self.got: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}

    def step(self, name: str, value: object) -> None:
        match name, value:
            case "plan", _:
                for planned in self.plan():
                    assert planned.broker_id not in self.under_way
                    self.under_way[planned.broker_id] = planned
            case "answer", [int(), int(), int()] as sizes:
                self.answer_one(sizes)
            case "fail", _:
                if (order := self.oldest()) is not None:
                    self.fetching.failed(order, NetworkFailed("lost"), self.now_s)
            case "forget session", _:
                if (order := self.oldest()) is not None:
                    response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
                    self.fetching.take(order, response, self.now_s)
            case "read", int(most):
                for partition, offsets in self.read(most=most).items():
                    self.got[partition] += offsets
            case "iterate", int(most):
                self.iterate(most)
            case "pause", TopicPartition() as partition:
                self.state(partition).paused = True
                self.buffers.stop_handing()
            case "resume", TopicPartition() as partition:
                self.state(partition).paused = False
            case "move leader", TopicPartition() as partition:
                self.epoch += 1
                self.leaders[partition.partition] ^= 3
                self.cluster = cluster(*self.leaders, epoch=self.epoch)
            case "wait", _:
                self.now_s += 1.0
                for state in self.subscription.states.values():
                    if state.phase is Phase.VALIDATING:
                        state.validated()
        self.check()

    def oldest(self) -> FetchOrder | None:
        return self.under_way.pop(next(iter(self.under_way))) if self.under_way else None

    def answer_one(self, sizes: Sequence[int]) -> None:
        order = self.oldest()
        if order is None:
            return
        told = []
        for partition, offset in order.offsets.items():
            if self.leaders[partition.partition] != order.broker_id:
                told.append(partition_data(None, partition=partition.partition, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
                continue
            end = min(LOG_END, offset + sizes[partition.partition])
            contents = batch(*range(offset, end), epoch=self.epoch) if end > offset else None
            told.append(partition_data(contents, partition=partition.partition, end=LOG_END))
        self.answer(order, *told)

    def iterate(self, most: int) -> None:
        handed = self.buffers.hand((), 5)
        if handed is not None:
            state, records = handed
            for _, record in zip(range(most), records, strict=False):
                state.advance(record.offset + 1, record.leader_epoch)
                self.got[TopicPartition(record.topic, record.partition)].append(record.offset)

    def check(self) -> None:
        for partition, offsets in self.got.items():
            assert offsets == list(range(len(offsets))), f"{partition} has a gap or a repeat"
            assert self.state(partition).offset == len(offsets), "the position is not behind what was read"
        room = SMALL.fetch_max_bytes + len(self.cluster.brokers) * LARGEST_BATCH_BYTES
        assert self.buffers.total_bytes <= room

    def finish(self) -> Mapping[TopicPartition, list[int]]:
        """Everything heals, and the application reads on."""
        for state in self.subscription.states.values():
            state.paused = False
        for _ in range(200):
            if all(len(offsets) == LOG_END for offsets in self.got.values()):
                break
            for name, value in (
                ("wait", None),
                ("plan", None),
                ("answer", [4, 4, 4]),
                ("answer", [4, 4, 4]),
                ("read", 99),
            ):
                self.step(name, value)
        return self.got


@settings(max_examples=100)
@given(st.lists(steps, min_size=20, max_size=80))
def test_each_record_is_read_once_and_in_order_despite_faults(history: list[tuple[str, object]]) -> None:
    stage = History()
    for name, value in history:
        stage.step(name, value)
    assert stage.finish() == {partition: list(range(LOG_END)) for partition in PARTITIONS}
