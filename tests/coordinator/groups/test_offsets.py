"""Offsets: commits, and the deletion of unused ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.coordinator.groups.offset_expiry import expire_offsets
from cordwood.coordinator.groups.offsets import Offsets
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.decision import Decision
from cordwood.wire.messages.group_records.legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue

NOW_MS = 1_800_000_000_000
RETENTION_MS = 7 * 24 * 60 * 60 * 1000


# Commits


@dataclass
class Model:
    """The whole log, looked through from its beginning for each answer."""

    # (log offset, producer id or -1, partition)
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    # The last one of each partition.
    tombstones: dict[int, int] = field(default_factory=dict)
    # (log offset, producer id, commit)
    markers: list[tuple[int, int, bool]] = field(default_factory=list)

    def outcome(self, at: int, producer_id: int) -> bool | None:
        """The outcome of a record's transaction; None while it is open."""
        if producer_id == -1:
            return True
        ends = [commit for marker_at, ended, commit in self.markers if ended == producer_id and marker_at > at]
        return ends[0] if ends else None

    def of(self, partition: int, outcome: bool | None) -> list[int]:
        return [
            at
            for at, producer_id, committed in self.commits
            if committed == partition
            and at > self.tombstones.get(partition, -1)
            and self.outcome(at, producer_id) is outcome
        ]


_PARTITIONS = st.integers(0, 2)
_PRODUCERS = st.integers(0, 2)
_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), _PARTITIONS, st.just(-1)),
        st.tuples(st.just("commit"), _PARTITIONS, _PRODUCERS),
        st.tuples(st.just("remove"), _PARTITIONS, st.just(-1)),
        st.tuples(st.just("end"), st.integers(0, 1), _PRODUCERS),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_the_latest_record_that_counts_is_the_offset_whenever_its_transaction_ends(
    events: list[tuple[str, int, int]],
) -> None:
    offsets, model = Offsets(), Model()
    for at, (event, number, producer_id) in enumerate(events):
        key = OffsetCommitKey(group="g", topic="t", partition=number)
        if event == "commit":
            offsets.replay(key, OffsetCommitValue(offset=at, metadata="", commit_timestamp=0), at, producer_id)
            model.commits.append((at, producer_id, number))
        elif event == "remove":
            offsets.replay(key, None, at, -1)
            model.tombstones[number] = at
        else:
            offsets.replay_end_txn(producer_id, commit=bool(number))
            model.markers.append((at, producer_id, bool(number)))
        for partition in range(3):
            counted = model.of(partition, True)
            committed = offsets.get("g", "t", partition)
            assert (committed.offset if committed else None) == max(counted, default=None)
            assert offsets.is_pending("g", "t", partition) == bool(model.of(partition, None))
            assert (partition in dict(offsets.of_topic("g", "t"))) == bool(counted or model.of(partition, None))


def test_offsets_of_the_oldest_kind_of_record_count_as_well() -> None:
    state = group_state()
    key = LegacyOffsetCommitKey(group="old", topic="t", partition=1)
    value = LegacyOffsetCommitValue(offset=5, metadata="m", commit_timestamp=NOW_MS)
    state.replay([CoordinatorRecord(key, value)], 0, -1)
    committed = state.offsets.get("old", "t", 1)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.leader_epoch) == (5, "m", -1)
    assert state.groups["old"].state_name == "Empty"
    state.replay([CoordinatorRecord(key, None)], 1, -1)
    assert state.offsets.get("old", "t", 1) is None


def test_a_marker_of_a_transaction_without_offsets_changes_nothing() -> None:
    offsets = Offsets()
    offsets.replay_end_txn(7, commit=True)
    assert offsets.by_group == {}


# Deletion


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def now_ms(self) -> int:
        return NOW_MS + self.passed_ms

    def monotonic(self) -> float:
        return self.passed_ms / 1000

    def sleep(self, seconds: float) -> None:
        self.passed_ms += int(seconds * 1000)


def group_state(clock: Clock | None = None) -> GroupShardState:
    config = standalone_config(Layer("test", {"log.dirs": "/data"}), port=0)
    image = MetadataImage()
    return GroupShardState(clock or Clock(), SeededRandom(1), lambda: config, lambda: image, lambda _group_id: {})


def commit(state: GroupShardState, group_id: str, partitions: range, producer_id: int = -1) -> None:
    records = [
        CoordinatorRecord(
            OffsetCommitKey(group=group_id, topic="t", partition=partition),
            OffsetCommitValue(offset=1, metadata="", commit_timestamp=state.clock.now_ms()),
        )
        for partition in partitions
    ]
    state.replay(records, 0, producer_id)


def expire(state: GroupShardState) -> int:
    """Returns the number of records written this time."""
    decided: Decision[None] = expire_offsets(state)
    state.replay(decided.records, 1000, -1)
    return len(decided.records)


def test_expired_offsets_are_written_in_batches_that_fit_the_log() -> None:
    clock = Clock()
    state = group_state(clock)
    commit(state, "large", range(2500))
    commit(state, "small", range(1))
    clock.passed_ms = RETENTION_MS
    # With a tombstone for each of the two groups.
    assert [expire(state) for _ in range(4)] == [1000, 1000, 503, 0]
    assert state.groups == {}
    assert state.offsets.by_group == {}


def test_remaining_expired_offsets_follow_at_once_before_the_next_interval() -> None:
    clock = Clock()
    state = group_state(clock)
    commit(state, "large", range(1500))
    clock.passed_ms = RETENTION_MS
    expire(state)
    assert state.timers.next_at == clock.monotonic()
    state.timers.take_due()
    expire(state)
    assert state.timers.next_at == clock.monotonic() + 600


def test_nothing_expires_before_its_time() -> None:
    clock = Clock()
    state = group_state(clock)
    commit(state, "g", range(1))
    clock.passed_ms = RETENTION_MS - 1
    assert expire(state) == 0


def test_an_offset_that_a_transaction_is_about_to_commit_does_not_expire() -> None:
    clock = Clock()
    state = group_state(clock)
    commit(state, "g", range(2))
    commit(state, "g", range(1), producer_id=7)
    clock.passed_ms = RETENTION_MS
    assert expire(state) == 1
    assert state.offsets.get("g", "t", 0) is not None
    assert "g" in state.groups


def test_a_group_of_which_only_a_transaction_is_left_stays_until_that_ends() -> None:
    clock = Clock()
    state = group_state(clock)
    commit(state, "g", range(1), producer_id=7)
    assert expire(state) == 0
    state.replay_end_txn(7, commit=False)
    assert expire(state) == 1
    assert state.groups == {}
