"""The quick ways to find that there is nothing to read: they agree with what is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.broker.fetch.read_replica import ReadReplicaSelector
from cordwood.broker.fetch.reading import CONSUMER_REPLICA_ID, READ_COMMITTED, READ_UNCOMMITTED, FetchRead
from cordwood.broker.fetch.session_watch import SessionWatch
from cordwood.broker.fetch.sessions import Answers, Conclusion
from cordwood.broker.fetch.wanted import WantedPartition
from cordwood.replica.partition import ACKS_ALL, Partition
from cordwood.shard.refusal import Refusal
from cordwood.wire.primitives import ZERO_UUID
from data_answers.batches import batch
from tests.broker.simulated import SimulatedNode, simulate

PARTITIONS = 3
FLUSHED = {"flush.messages": "1"}
FOLLOWER = 2
# The start of the log, of a fetch outside of a session.
NOT_TOLD = -1


class Wanted(NamedTuple):
    """`behind` is relative to the end of the log."""

    partition: int
    behind: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    knows_watermark: bool


class Fetched(NamedTuple):
    partitions: list[WantedPartition]
    only_news: bool

    @property
    def is_empty(self) -> bool:
        return not self.partitions

    @property
    def watch(self) -> SessionWatch | None:
        return None

    @property
    def is_superseded(self) -> bool:
        return False

    def when_superseded(self, then: Callable[[], None]) -> None: ...

    def conclude(self, answers: Answers, now_ms: int) -> Conclusion:
        raise AssertionError("nobody is answered")


WANTED = st.builds(
    Wanted,
    st.sampled_from([*range(PARTITIONS), 9]),
    st.sampled_from([0, 0, 0, 0, 1, 2, -1, 99]),
    st.sampled_from([1000, 1000, 0]),
    st.sampled_from([-1, -1, 0, 5]),
    st.sampled_from([-1, -1, 0, 3]),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(["plain", "begin", "commit"])), max_size=8),
    st.lists(WANTED, min_size=1, max_size=4, unique_by=lambda wanted: wanted.partition),
    st.sampled_from([READ_UNCOMMITTED, READ_COMMITTED]),
    st.booleans(),
)
def test_the_fast_checks_agree_with_the_read(
    writes: list[tuple[int, str]], wanted: list[Wanted], isolation_level: int, only_news: bool
) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", PARTITIONS, FLUSHED)
        await write(node, writes)
        partitions = [partition_of(node, one) for one in wanted]

        def reading(*, only_news: bool) -> FetchRead:
            fetched = Fetched(partitions, only_news)
            return FetchRead(node.broker, fetched, CONSUMER_REPLICA_ID, isolation_level, 1000)

        answers, found_bytes, is_urgent = reading(only_news=False).all()
        idle = reading(only_news=False).idle()
        # Fetchers that are ahead of what may be read are left to the general way.
        ahead = {id(one) for one in partitions if is_ahead(node, one, isolation_level)}
        assert (idle is not None) == (found_bytes == 0 and not is_urgent and not ahead)
        if idle is not None:
            assert idle == reading(only_news=False).watched()
        if only_news:
            news, news_bytes, is_news_urgent = reading(only_news=True).all()
            assert (news_bytes, is_news_urgent) == (found_bytes, is_urgent)
            left_out = {id(one) for one, _ in answers} - {id(one) for one, _ in news}
            for one, answer in answers:
                told = (answer.high_watermark, answer.log_start_offset)
                is_known = told == (one.told_high_watermark, one.told_start_offset)
                is_silent = is_known and not (answer.error_code or answer.records or answer.diverging_epoch.epoch >= 0)
                assert (id(one) in left_out) == (is_silent and id(one) not in ahead)
        for one in partitions:
            assert has_some(reading(only_news=False), one, 1) == has_some(reading(only_news=False), one, 2)

    simulate(test)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(["plain", "begin", "commit"])), max_size=6),
    st.lists(WANTED, min_size=1, max_size=4, unique_by=lambda wanted: wanted.partition),
    st.sampled_from([NOT_TOLD, 0, 7]),
    st.booleans(),
    st.booleans(),
)
def test_the_fast_checks_agree_with_a_followers_response(
    writes: list[tuple[int, str]], wanted: list[Wanted], told_start_offset: int, is_throttled: bool, is_in_sync: bool
) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", PARTITIONS, {**FLUSHED, "leader.replication.throttled.replicas": "*"})
        await write(node, writes)
        follow(node, is_in_sync=is_in_sync)
        if is_throttled:
            node.broker.leader_throttle.limit(0)
        partitions = [partition_of(node, one) for one in wanted]
        for one in partitions:
            one.told_start_offset = told_start_offset

        def reading(one: list[WantedPartition]) -> FetchRead:
            return FetchRead(node.broker, Fetched(one, only_news=False), FOLLOWER, READ_UNCOMMITTED, 1000)

        _, found_bytes, is_urgent = reading(partitions).all()
        # A follower that does not know where the log begins now is answered at once.
        has_news = told_start_offset != 0
        idle = reading(partitions).idle()
        if idle is not None:
            assert (found_bytes, is_urgent, has_news) == (0, False, False)
            assert idle == reading(partitions).watched()
        for one in partitions:
            _, one_bytes, one_urgent = reading([one]).all()
            has_available = has_some(reading([one]), one, 1)
            assert has_available == has_some(reading([one]), one, 2)
            # Whether the logs have parted is only asked where something is read.
            is_told_another = told_start_offset not in (NOT_TOLD, 0)
            if one.last_fetched_epoch < 0 and one_urgent:
                assert has_available is None or is_told_another
            elif one.last_fetched_epoch < 0:
                assert has_available == (one_bytes > 0 or is_told_another)
            # Throttled followers out of sync get nothing, and others what there is.
            if is_throttled and not is_in_sync:
                assert one_bytes == 0

    simulate(test)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(["plain", "begin", "commit"])), max_size=6),
    st.lists(WANTED, min_size=1, max_size=4, unique_by=lambda wanted: wanted.partition),
    st.sampled_from([None, 2]),
)
def test_a_reader_that_may_be_sent_elsewhere_is_never_found_idle(
    writes: list[tuple[int, str]], wanted: list[Wanted], preferred: int | None
) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", PARTITIONS, FLUSHED)
        await write(node, writes)
        partitions = [partition_of(node, one) for one in wanted]

        def reading(*, only_news: bool) -> FetchRead:
            fetched = Fetched(partitions, only_news)
            selector = Selected(node.broker, "rack", "PLAINTEXT")
            return FetchRead(node.broker, fetched, CONSUMER_REPLICA_ID, READ_UNCOMMITTED, 1000, selector=selector)

        class Selected(ReadReplicaSelector):
            def select(self, partition: Partition, fetch_offset: int) -> int | None:
                return preferred

        assert reading(only_news=False).idle() is None
        answers, found_bytes, is_urgent = reading(only_news=True).all()
        assert (answers, found_bytes, is_urgent) == reading(only_news=False).all()
        for _, answer in answers:
            is_silent = answer.error_code or answer.diverging_epoch.epoch >= 0
            assert is_silent or (answer.preferred_read_replica == (-1 if preferred is None else preferred))

    simulate(test)


def follow(node: SimulatedNode, *, is_in_sync: bool) -> None:
    """Gives each partition a follower."""
    broker_id = node.broker.id
    for index in range(PARTITIONS):
        partition = node.partition("t", index)
        isr = (broker_id, FOLLOWER) if is_in_sync else (broker_id,)
        partition.update(replace(partition.state, replicas=(broker_id, FOLLOWER), isr=isr), partition.config)


def is_ahead(node: SimulatedNode, wanted: WantedPartition, isolation_level: int) -> bool:
    partition = node.broker.partition("t", wanted.index)
    if partition is None or partition.log is None:
        return False
    log = partition.log
    return wanted.fetch_offset > (log.last_stable_offset if isolation_level else log.high_watermark)


def has_some(read: FetchRead, wanted: WantedPartition, enough_bytes: int) -> bool | None:
    """None where it is refused."""
    try:
        return read.available(wanted, enough_bytes) > 0
    except Refusal:
        return None


async def write(node: SimulatedNode, writes: list[tuple[int, str]]) -> None:
    """`begin` leaves a transaction open; what is written last may not be flushed yet."""
    transactions = {}
    for index, what in writes:
        if what == "plain":
            node.partition("t", index).append(batch("a", "b"), ACKS_ALL, node.broker.clock.now_ms())
        elif what == "begin" and index not in transactions:
            transactions[index] = await node.transaction("t", index, "tx")
            await transactions[index].write("c")
        elif what == "commit" and index in transactions:
            await transactions.pop(index).end(commit=True)
    if len(writes) % 2:
        await node.broker.replicas.flusher.finish()


def partition_of(node: SimulatedNode, wanted: Wanted) -> WantedPartition:
    partition = node.broker.partition("t", wanted.partition)
    log = None if partition is None else partition.log
    end_offset = 0 if log is None else log.end_offset
    made = WantedPartition(
        "t",
        ZERO_UUID,
        wanted.partition,
        end_offset - wanted.behind,
        wanted.max_bytes,
        wanted.current_leader_epoch,
        wanted.last_fetched_epoch,
    )
    if log is not None and wanted.knows_watermark:
        made.told_high_watermark, made.told_start_offset = log.high_watermark, log.start_offset
    return made
