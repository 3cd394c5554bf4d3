"""Where a consumer stands in a partition, and what moves it."""

import pytest

from cordwood.client.consumer.offsets.positions import UNKNOWN, PartitionState, Phase
from cordwood.client.consumer.offsets.reset_strategy import TO_BEGINNING, TO_END, ResetKind, ResetStrategy
from cordwood.client.errors import BadSetting, ClientError
from cordwood.client.offsets import EARLIEST, LATEST
from tests.client.fetched_data import P0


def at(offset: int, epoch: int = UNKNOWN, leader_epoch: int = UNKNOWN) -> PartitionState:
    state = PartitionState(P0)
    state.seek(offset, epoch, leader_epoch)
    return state


def test_a_new_partition_has_no_position_and_is_not_fetched() -> None:
    state = PartitionState(P0)
    assert not state.has_position
    assert not state.is_fetchable(0.0)
    assert state.is_waiting_for(Phase.INITIALIZING, 0.0)


def test_a_seek_is_fetched_from_there() -> None:
    state = at(7)
    assert (state.offset, state.fetch_offset) == (7, 7)
    assert state.is_fetchable(0.0)


def test_a_position_without_an_epoch_is_not_held_against_a_new_leader() -> None:
    state = at(7)
    assert not state.observe_leader(3)
    assert state.is_fetchable(0.0)


def test_a_position_with_an_epoch_is_held_against_the_first_leader_and_each_new_one() -> None:
    state = at(7, epoch=2)
    assert state.observe_leader(3)
    assert state.phase is Phase.VALIDATING
    assert not state.is_fetchable(0.0)
    state.validated()
    assert not state.observe_leader(3)
    assert state.is_fetchable(0.0)
    assert state.observe_leader(4)


def test_a_position_in_a_recreated_topic_is_validated_against_its_new_log() -> None:
    state = at(7, epoch=5, leader_epoch=5)
    assert state.observe_leader(0)
    assert state.leader_epoch == 0


def test_records_taken_by_a_thread_during_a_leader_change_are_not_fetched_again() -> None:
    """It has the record already, and reports it after the change of the leader."""
    state = at(7, epoch=2, leader_epoch=2)
    assert state.observe_leader(3)
    state.advance(8, 2)
    state.validated()
    assert state.fetch_offset == 8


def test_a_position_just_reported_by_the_leader_is_not_validated_again() -> None:
    assert not at(7, epoch=2, leader_epoch=3).observe_leader(3)


def test_records_buffered_from_an_old_leader_are_fetched_again() -> None:
    state = at(7, epoch=2, leader_epoch=2)
    state.fetch_offset = 50
    state.observe_leader(3)
    assert state.fetch_offset == 7


def test_a_paused_partition_keeps_its_position() -> None:
    state = at(7)
    state.paused = True
    assert not state.is_fetchable(0.0)
    assert state.has_position


def test_a_partition_is_not_read_before_the_listener_was_called() -> None:
    state = at(7)
    state.awaits_listener = True
    assert not state.is_fetchable(0.0)
    assert not state.is_consumable


def test_an_error_is_raised_once_and_then_retried() -> None:
    state = at(7)
    state.fail(ClientError("no"))
    assert not state.is_fetchable(0.0)
    assert state.take_error() is not None
    assert state.take_error() is None
    assert state.is_fetchable(0.0)


def test_a_seek_forgets_errors_and_rests() -> None:
    state = at(7)
    state.fail(ClientError("no"))
    state.rest_until(100.0)
    state.seek(8)
    assert state.is_fetchable(0.0)


def test_a_reset_waits_for_the_leader() -> None:
    state = at(7)
    state.reset(TO_END)
    assert not state.has_position
    assert state.is_waiting_for(Phase.RESETTING, 0.0)


def test_the_preferred_replica_is_forgotten_after_its_time() -> None:
    state = at(7)
    state.prefer(5, until_s=10.0)
    assert state.preferred(9.0) == 5
    assert state.preferred(10.0) is None
    assert not state.forget_preferred()


def test_lag_counts_to_the_end_that_may_be_read() -> None:
    state = at(7)
    assert state.lag(read_committed=False) is None
    state.high_watermark, state.last_stable_offset = 20, 10
    assert state.lag(read_committed=False) == 13
    assert state.lag(read_committed=True) == 3


@pytest.mark.parametrize(
    ("text", "kind", "duration_ms"),
    [
        ("earliest", ResetKind.EARLIEST, 0),
        ("Latest", ResetKind.LATEST, 0),
        ("none", ResetKind.NONE, 0),
        ("by_duration:PT1H", ResetKind.BY_DURATION, 3_600_000),
        ("by_duration:P1DT2H3M4.5S", ResetKind.BY_DURATION, 93_784_500),
    ],
)
def test_reset_strategies_are_read_as_kafka_writes_them(text: str, kind: ResetKind, duration_ms: int) -> None:
    assert ResetStrategy.parse(text) == ResetStrategy(kind, duration_ms)


@pytest.mark.parametrize(
    "text", ["", "smallest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H"]
)
def test_other_reset_strategies_are_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        ResetStrategy.parse(text)


def test_a_reset_requests_the_end_that_it_means() -> None:
    assert TO_BEGINNING.timestamp(5_000) == EARLIEST
    assert TO_END.timestamp(5_000) == LATEST
    assert ResetStrategy.parse("by_duration:PT2S").timestamp(5_000) == 3_000
