"""Leader epochs: KIP-101's table, its questions and its file."""

from pathlib import Path

import pytest

from cordwood.log.checkpoints.formats import CorruptCheckpoint
from cordwood.log.epochs import EpochStart, LeaderEpochs, decode_epochs
from cordwood.log.log import Log
from tests.log.support import NOW, batch, open_at


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*entry) for entry in entries)


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    epochs = epochs_of((0, 0), (2, 10), (5, 40))
    assert epochs.end_offset_for(0, 50) == (0, 10)
    assert epochs.end_offset_for(2, 50) == (2, 40)


def test_the_end_of_the_latest_epoch_is_the_end_of_the_log() -> None:
    assert epochs_of((0, 0), (2, 10)).end_offset_for(2, 50) == (2, 50)


def test_an_epoch_without_records_answers_for_the_one_before_it() -> None:
    assert epochs_of((0, 0), (5, 40)).end_offset_for(3, 50) == (0, 40)


def test_an_epoch_before_the_first_ends_where_the_first_begins() -> None:
    assert epochs_of((4, 30), (5, 40)).end_offset_for(1, 50) == (1, 30)


def test_an_epoch_of_the_future_and_no_epoch_are_not_known() -> None:
    epochs = epochs_of((0, 0))
    assert epochs.end_offset_for(1, 50) == (-1, -1)
    assert epochs.end_offset_for(-1, 50) == (-1, -1)
    assert epochs_of().end_offset_for(0, 50) == (-1, -1)


def test_a_new_entry_drops_conflicting_ones() -> None:
    epochs = epochs_of((0, 0), (2, 10), (5, 40))
    epochs.assign(3, 10)
    assert epochs.entries == [(0, 0), (3, 10)]


def test_the_same_epoch_keeps_its_earliest_start() -> None:
    epochs = epochs_of((0, 0), (2, 10))
    epochs.assign(2, 20)
    assert epochs.entries == [(0, 0), (2, 10)]
    assert not epochs.changed


def test_a_batch_without_an_epoch_leaves_the_epochs_unchanged() -> None:
    epochs = epochs_of((0, 0), (2, 10))
    epochs.assign(-1, 20)
    assert epochs.entries == [(0, 0), (2, 10)]


def test_an_offset_belongs_to_the_epoch_that_began_last_before_it() -> None:
    epochs = epochs_of((1, 5), (2, 10))
    assert [epochs.epoch_for(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 2, 2]


def test_truncation_from_the_end_drops_epochs_that_began_there_or_later() -> None:
    epochs = epochs_of((0, 0), (2, 10), (5, 40))
    epochs.truncate_from_end(10)
    assert epochs.entries == [(0, 0)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, [(0, 0), (2, 10), (5, 40)]),
        (7, [(0, 7), (2, 10), (5, 40)]),
        (10, [(2, 10), (5, 40)]),
        (60, [(5, 60)]),
    ],
)
def test_truncation_from_the_start_moves_the_epoch_it_falls_into(start: int, expected: list[tuple[int, int]]) -> None:
    epochs = epochs_of((0, 0), (2, 10), (5, 40))
    epochs.truncate_from_start(start)
    assert epochs.entries == expected


def test_the_file_is_kafkas() -> None:
    assert epochs_of((0, 0), (2, 83)).encode() == b"0\n2\n0 0\n2 83\n"
    assert decode_epochs("x", b"0\n2\n0 0\n2 83\n").entries == [(0, 0), (2, 83)]


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 x\n", b"0\n2\n3 0\n2 5\n", b"0\n1\n-1 5\n", b"\xff\xfe"]
)
def test_dumping_a_damaged_file_reports_it(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="leader-epoch"):
        decode_epochs("leader-epoch-checkpoint", data)


def test_a_damaged_file_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    log = open_at(tmp_path)
    for epoch in (0, 0, 3, 7):
        log.append_as_leader(batch("x"), epoch, NOW)
    expected = log.epochs.entries
    log.close(NOW)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(b"rubbish")
    assert open_at(tmp_path, clean=True).epochs.entries == expected


def ends_as_its_leader(leader: Log, follower: Log) -> int:
    """Asks and truncates until the leader's answer is final, as a follower does; how often it asked."""
    questions = 0
    while True:
        questions += 1
        answer = leader.end_offset_for_epoch(follower.epochs.latest)
        if follower.truncate_to_epoch(*answer, NOW):
            return questions


def logs_of(tmp_path: Path, leaders: list[int], followers: list[int]) -> tuple[Log, Log]:
    """A leader and a follower with one record in each of the epochs given."""
    logs = open_at(tmp_path / "leader"), open_at(tmp_path / "follower")
    for log, epochs in zip(logs, (leaders, followers), strict=True):
        for epoch in epochs:
            log.append_as_leader(batch("x"), epoch, NOW)
    return logs


def test_a_follower_truncates_to_the_end_of_the_leaders_epoch(tmp_path: Path) -> None:
    leader, follower = logs_of(tmp_path, [1, 1, 1, 2], [1, 1, 1, 1, 1])
    ends_as_its_leader(leader, follower)
    assert follower.end_offset == 3


def test_a_follower_that_is_behind_keeps_all(tmp_path: Path) -> None:
    leader, follower = logs_of(tmp_path, [1, 1, 1, 2], [1, 1])
    ends_as_its_leader(leader, follower)
    assert follower.end_offset == 2


def test_a_follower_with_epochs_that_its_leader_never_knew_asks_again(tmp_path: Path) -> None:
    """KIP-279: two fast leader changes, each with a record that the other side never saw."""
    leader, follower = logs_of(tmp_path, [1, 1, 3, 3, 5], [1, 1, 2, 4, 4])
    assert ends_as_its_leader(leader, follower) == 2
    assert follower.end_offset == 2
    assert follower.epochs.entries == [(1, 0)]


def test_a_follower_of_a_leader_without_epochs_truncates_to_the_high_watermark(tmp_path: Path) -> None:
    leader, follower = logs_of(tmp_path, [], [1, 1, 1])
    follower.advance_high_watermark(2)
    ends_as_its_leader(leader, follower)
    assert follower.end_offset == 2
