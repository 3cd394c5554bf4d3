"""Fetch sessions (KIP-227), as plain values."""

from __future__ import annotations

from cordwood.broker.fetch.sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Answers,
    Conclusion,
    FetchSessions,
)
from cordwood.broker.fetch.wanted import PartitionKey, WantedPartition
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import EpochEndOffset, PartitionData
from cordwood.wire.primitives import ZERO_UUID, Uuid

MAX_INT = 2**31 - 1


def sessions_of(slots: int = 1000) -> FetchSessions:
    return FetchSessions(slots, SeededRandom(1))


def wanted(*partitions: int, offset: int = 0, topic_id: Uuid = ZERO_UUID) -> dict[PartitionKey, WantedPartition]:
    found = [WantedPartition("t", topic_id, index, offset, 1000) for index in partitions]
    return {partition.key: partition for partition in found}


def answer(
    index: int, *, data: bytes = b"", high_watermark: int = 10, start: int = 0, error: ErrorCode = ErrorCode.NONE
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=start,
        records=data,
    )


class Client:
    """One fetcher: it keeps its session's id and epoch as KIP-227 asks of it."""

    def __init__(self, sessions: FetchSessions, *, privileged: bool = False) -> None:
        self.sessions = sessions
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.privileged = privileged

    def fetch(
        self,
        want: dict[PartitionKey, WantedPartition] | None = None,
        forget: tuple[PartitionKey, ...] = (),
        *,
        now_ms: int = 0,
        answers: dict[int, PartitionData] | None = None,
    ) -> Conclusion:
        """Every partition is answered as `answers` say, or with nothing new."""
        fetching = self.sessions.begin(
            self.session_id, self.epoch, False, want or {}, forget, now_ms, privileged=self.privileged
        )
        if isinstance(fetching, ErrorCode):
            return Conclusion(fetching, NO_SESSION, [])
        said = answers or {}
        found: Answers = [
            (partition, said.get(partition.index) or answer(partition.index)) for partition in fetching.partitions
        ]
        conclusion = fetching.conclude(found, now_ms)
        if conclusion.error is ErrorCode.NONE:
            self.session_id = conclusion.session_id
            self.epoch = 1 if self.epoch == MAX_INT else self.epoch + 1
        return conclusion


def told(conclusion: Conclusion) -> list[int]:
    return [partition.index for partition, _ in conclusion.answers]


# Answers


def test_a_fetch_without_a_session_gets_everything_and_creates_none() -> None:
    sessions = sessions_of()
    fetching = sessions.begin(NO_SESSION, FINAL_EPOCH, False, wanted(0, 1), (), 0)
    assert not isinstance(fetching, ErrorCode)
    conclusion = fetching.conclude([(partition, answer(partition.index)) for partition in fetching.partitions], 0)
    assert conclusion.session_id == NO_SESSION
    assert told(conclusion) == [0, 1]
    assert len(sessions) == 0


def test_the_first_fetch_of_a_session_returns_everything() -> None:
    client = Client(sessions_of())
    assert told(client.fetch(wanted(0, 1))) == [0, 1]
    assert client.session_id > 0
    assert len(client.sessions) == 1
    assert client.sessions.partitions == 2


def test_later_fetches_return_only_changes() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0, 1, 2, 3))
    assert told(client.fetch()) == []
    changed = {0: answer(0, high_watermark=11), 2: answer(2, start=1)}
    assert told(client.fetch(answers=changed)) == [0, 2]
    assert told(client.fetch(answers=changed)) == []


def test_data_is_reported_every_time() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0, 1))
    for _ in range(3):
        assert told(client.fetch(answers={1: answer(1, data=b"x")})) == [1]


def test_a_diverging_epoch_is_reported_with_every_fetch() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0))
    parted = answer(0)
    parted.diverging_epoch = EpochEndOffset(epoch=1, end_offset=3)
    assert told(client.fetch(answers={0: parted})) == [0]
    assert told(client.fetch(answers={0: parted})) == [0]


def test_after_an_error_the_partition_is_reported_again() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0))
    wrong = answer(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert told(client.fetch(answers={0: wrong})) == [0]
    assert told(client.fetch(answers={0: wrong})) == [0]
    assert told(client.fetch()) == [0]
    assert told(client.fetch()) == []


def test_partitions_that_returned_data_come_last_next_time() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0, 1, 2))
    everything = {index: answer(index, data=b"x") for index in range(3)}
    assert told(client.fetch(answers={0: everything[0]})) == [0]
    assert told(client.fetch(answers=everything)) == [1, 2, 0]
    assert told(client.fetch(answers={1: everything[1]})) == [1]
    assert told(client.fetch(answers=everything)) == [2, 0, 1]


# Requests


def test_a_session_remembers_its_partitions() -> None:
    sessions = sessions_of()
    client = Client(sessions)
    client.fetch(wanted(0, 1, offset=5))
    client.fetch(wanted(1, offset=7))
    fetching = sessions.begin(client.session_id, client.epoch, False, {}, (), 0)
    assert not isinstance(fetching, ErrorCode)
    assert [(partition.index, partition.fetch_offset) for partition in fetching.partitions] == [(0, 5), (1, 7)]


def test_partitions_join_and_leave_a_session() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0, 1))
    everything = {index: answer(index, data=b"x") for index in range(3)}
    assert told(client.fetch(wanted(2), (("t", 0),), answers=everything)) == [1, 2]
    assert client.sessions.partitions == 2


def test_forgetting_unknown_partitions_changes_nothing() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0))
    assert client.fetch(forget=(("t", 9), ("u", 0))).error is ErrorCode.NONE
    assert client.sessions.partitions == 1


def test_a_session_without_partitions_is_closed() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0))
    assert client.fetch(forget=(("t", 0),)).session_id == NO_SESSION
    assert len(client.sessions) == 0


# Ids and epochs


def test_an_unknown_session_is_refused() -> None:
    assert sessions_of().begin(77, 1, False, wanted(0), (), 0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_out_of_turn_is_refused_and_changes_nothing() -> None:
    client = Client(sessions_of())
    client.fetch(wanted(0))
    for epoch in (2, MAX_INT, -2):
        refused = client.sessions.begin(client.session_id, epoch, False, wanted(1), (("t", 0),), 0)
        assert refused is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch().error is ErrorCode.NONE
    assert client.sessions.partitions == 1


def test_the_epoch_after_the_last_is_one() -> None:
    sessions = sessions_of()
    client = Client(sessions)
    client.fetch(wanted(0))
    sessions._sessions[client.session_id].epoch = client.epoch = MAX_INT
    assert client.fetch().error is ErrorCode.NONE
    assert client.epoch == 1
    assert client.fetch().error is ErrorCode.NONE


def test_a_fetch_that_was_overtaken_is_void() -> None:
    sessions = sessions_of()
    client = Client(sessions)
    client.fetch(wanted(0))
    parked = sessions.begin(client.session_id, 1, False, {}, (), 0)
    assert not isinstance(parked, ErrorCode)
    assert not isinstance(sessions.begin(client.session_id, 2, False, {}, (), 0), ErrorCode)
    conclusion = parked.conclude([(partition, answer(0, data=b"x")) for partition in parked.partitions], 0)
    assert conclusion == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, client.session_id, [])


def test_names_and_ids_are_not_mixed_in_a_session() -> None:
    sessions = sessions_of()
    client = Client(sessions)
    client.fetch(wanted(0))
    assert sessions.begin(client.session_id, 1, True, {}, (), 0) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_of_unknown_name_is_kept_by_its_id() -> None:
    for topic_id in (b"\x01" * 16, ZERO_UUID):
        assert WantedPartition(None, topic_id, 3, 0, 1000).key == (topic_id, 3)


def test_a_full_fetch_closes_the_session_that_it_names() -> None:
    for epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions = sessions_of()
        client = Client(sessions)
        client.fetch(wanted(0))
        assert not isinstance(sessions.begin(client.session_id, epoch, False, wanted(0), (), 0), ErrorCode)
        assert len(sessions) == 0


# Room for sessions


def test_without_room_there_is_no_session() -> None:
    sessions = sessions_of(slots=1)
    Client(sessions).fetch(wanted(0))
    late = Client(sessions)
    assert late.fetch(wanted(0, 1)).session_id == NO_SESSION
    assert len(sessions) == 1


def test_a_broker_may_have_no_sessions_at_all() -> None:
    assert Client(sessions_of(slots=0)).fetch(wanted(0)).session_id == NO_SESSION


def test_an_unused_session_is_evicted() -> None:
    sessions = sessions_of(slots=2)
    idle, busy = Client(sessions), Client(sessions)
    idle.fetch(wanted(0, 1, 2))
    busy.fetch(wanted(0, 1, 2))
    busy.fetch(now_ms=EVICTION_MS)
    assert Client(sessions).fetch(wanted(0), now_ms=EVICTION_MS).session_id == NO_SESSION
    assert Client(sessions).fetch(wanted(0), now_ms=EVICTION_MS + 1).session_id != NO_SESSION
    assert sessions.evicted == 1
    assert idle.fetch(now_ms=EVICTION_MS + 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert busy.fetch(now_ms=EVICTION_MS + 1).error is ErrorCode.NONE


def test_an_old_session_is_evicted_only_for_a_larger_one() -> None:
    sessions = sessions_of(slots=2)
    small, large = Client(sessions), Client(sessions)
    small.fetch(wanted(0, 1))
    large.fetch(wanted(0, 1, 2))
    now_ms = EVICTION_MS + 1
    small.fetch(now_ms=now_ms)
    large.fetch(now_ms=now_ms)
    assert Client(sessions).fetch(wanted(0, 1), now_ms=now_ms).session_id == NO_SESSION
    assert Client(sessions).fetch(wanted(0, 1, 2), now_ms=now_ms).session_id != NO_SESSION
    assert small.fetch(now_ms=now_ms).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert large.fetch(now_ms=now_ms).error is ErrorCode.NONE


def test_a_young_session_is_not_evicted_for_a_larger_one() -> None:
    sessions = sessions_of(slots=1)
    Client(sessions).fetch(wanted(0))
    assert Client(sessions).fetch(wanted(0, 1, 2), now_ms=EVICTION_MS - 1).session_id == NO_SESSION


def test_a_followers_session_may_evict_a_consumers_but_not_vice_versa() -> None:
    sessions = sessions_of(slots=1)
    consumer = Client(sessions)
    consumer.fetch(wanted(0, 1, 2))
    follower = Client(sessions, privileged=True)
    assert follower.fetch(wanted(0)).session_id != NO_SESSION
    assert consumer.fetch().error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert Client(sessions).fetch(wanted(0, 1, 2, 3)).session_id == NO_SESSION


def test_a_sessions_size_follows_its_partitions() -> None:
    sessions = sessions_of(slots=1)
    client = Client(sessions)
    client.fetch(wanted(0, 1, 2))
    now_ms = EVICTION_MS + 1
    client.fetch(now_ms=now_ms)
    assert Client(sessions).fetch(wanted(0, 1), now_ms=now_ms).session_id == NO_SESSION
    client.fetch(forget=(("t", 1), ("t", 2)), now_ms=now_ms)
    assert Client(sessions).fetch(wanted(0, 1), now_ms=now_ms).session_id != NO_SESSION


def test_a_watermark_that_a_follower_cannot_use_is_sent_again() -> None:
    """With a divergence the follower truncates and ignores it; so it does after a change of epoch."""
    wanted = WantedPartition("t", ZERO_UUID, 0, 5, 100, 1, 1, 0)
    diverging = PartitionData(high_watermark=3, diverging_epoch=EpochEndOffset(epoch=0, end_offset=3))
    assert wanted.tell(diverging)
    assert wanted.tell(PartitionData(high_watermark=3))
    assert not wanted.tell(PartitionData(high_watermark=3))
    wanted.want(WantedPartition("t", ZERO_UUID, 0, 5, 100, 2, 1, 0))
    assert wanted.tell(PartitionData(high_watermark=3))
