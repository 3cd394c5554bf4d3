"""The checks of `make chaos` find violations in histories made for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.checks import (
    ABORTED,
    Kind,
    Log,
    Violation,
    check_same_reads,
    check_seen,
    check_transformed,
    check_writes,
)
from chaos.comparison import comparison
from chaos.gaps import Gap, GapMeter
from chaos.readers import Positions, Sightings
from chaos.replicas import check_replicas, replicas_of
from chaos.report import Outcome
from chaos.results import CORDWOOD, KAFKA, Result, ResultsFile, read_results
from cordwood.wire.records import encode_batch

GOOD: Log = [(0, "0"), (1, "1"), (2, "2")]
ACKNOWLEDGED = [(0, 0), (1, 1), (2, 2)]


def kinds(found: list[Violation]) -> set[Kind]:
    return {violation.kind for violation in found}


def test_a_good_history_passes() -> None:
    assert check_writes("t-0", ACKNOWLEDGED, GOOD, 3) == []
    assert check_transformed("t-0", GOOD, [(0, "0"), (2, "1"), (3, "2")]) == []
    assert check_seen("t-0", dict(GOOD), GOOD) == []
    assert check_same_reads("t-0", GOOD, list(GOOD)) == []


def test_a_record_that_was_not_acknowledged_may_be_there_or_not() -> None:
    assert check_writes("t-0", ACKNOWLEDGED[:2], GOOD, 3) == []
    assert check_writes("t-0", ACKNOWLEDGED[:2], GOOD[:2], 3) == []


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (GOOD[:2], Kind.LOST_WRITE),
        ([*GOOD, (3, "1")], Kind.DUPLICATE),
        ([(0, "0"), (1, "2"), (2, "1")], Kind.INCONSISTENT_OFFSETS),
        ([(0, "0"), (1, "2"), (2, "1")], Kind.ORDER),
        ([*GOOD, (3, "7")], Kind.UNKNOWN_WRITE),
    ],
)
def test_a_bad_log_is_found(log: Log, kind: Kind) -> None:
    assert kind in kinds(check_writes("t-0", ACKNOWLEDGED, log, 3))


@pytest.mark.parametrize(
    ("sink", "kind"),
    [
        ([(0, "0"), (1, "2")], Kind.LOST_WRITE),
        ([(0, "0"), (1, "1"), (2, "1"), (3, "2")], Kind.DUPLICATE),
        ([(0, "0"), (1, ABORTED + "1"), (2, "1"), (3, "2")], Kind.ABORTED_READ),
        ([(0, "1"), (1, "0"), (2, "2")], Kind.ORDER),
        ([(0, "0"), (1, "1"), (2, "2"), (3, "9")], Kind.UNKNOWN_WRITE),
    ],
)
def test_a_bad_transformation_is_found(sink: Log, kind: Kind) -> None:
    assert kinds(check_transformed("t-0", GOOD, sink)) == {kind}


def test_a_group_that_missed_a_record_or_read_another_one_is_found() -> None:
    assert kinds(check_seen("t-0", {0: "0", 2: "2"}, GOOD)) == {Kind.UNSEEN}
    assert kinds(check_seen("t-0", {0: "0", 1: "x", 2: "2"}, GOOD)) == {Kind.INCONSISTENT_OFFSETS}


def test_readers_that_disagree_are_found() -> None:
    assert kinds(check_same_reads("t-0", GOOD, GOOD[:2])) == {Kind.INCONSISTENT_OFFSETS}


def test_polls_that_skip_or_go_back_within_an_assignment_are_found() -> None:
    sightings = Sightings("g", "t")
    positions = Positions("member", sightings)
    positions.take(0, 5, "a")
    positions.take(0, 6, "b")
    assert sightings.violations == []
    positions.take(0, 8, "d")
    positions.take(0, 7, "c")
    assert [each.kind for each in sightings.violations] == [Kind.POLL_SKIP, Kind.NONMONOTONIC_POLL]
    positions.forget([0])
    positions.take(0, 6, "b")
    positions.take(0, 7, "other")
    assert [each.kind for each in sightings.violations[2:]] == [Kind.INCONSISTENT_OFFSETS]


def test_replicas_that_differ_are_found_and_those_that_begin_later_are_not(tmp_path: Path) -> None:
    first, second, other = (batch_at(offset, value) for offset, value in ((0, b"a"), (1, b"b"), (1, b"c")))
    write_replicas(tmp_path, first + second, first + second, second)
    [(partition, directories)] = replicas_of(disks(tmp_path)).items()
    assert set(directories) == {1, 2, 3}
    assert check_replicas(partition, directories) == []
    write_replicas(tmp_path, first + second, first + other, first)
    assert kinds(check_replicas(partition, directories)) == {Kind.REPLICAS_DIFFER}


def batch_at(offset: int, value: bytes) -> bytes:
    return bytes(encode_batch([(offset, 0, None, value, [])]))


def disks(root: Path) -> dict[int, list[Path]]:
    return {node_id: [root / str(node_id)] for node_id in (1, 2, 3)}


def write_replicas(root: Path, *logs: bytes) -> None:
    for node_id, log in enumerate(logs, 1):
        directory = root / str(node_id) / "t-0"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "00000000000000000000.log").write_bytes(log)


def test_a_partition_that_nothing_came_from_has_a_gap_as_long_as_the_measurement() -> None:
    meter = GapMeter(2)
    meter.begin()
    meter.acknowledge(0)
    gap = meter.end()
    assert 0 < gap.overall <= gap.worst_partition


def outcome(fault: str, gap_s: float) -> Outcome:
    gap = Gap(gap_s, gap_s + 1)
    return Outcome(fault, "node 2", {"librdkafka": gap, "librdkafka transactions": gap}, 4.0)


def test_kept_results_come_back_as_they_were_with_runs_that_were_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "results.jsonl"
    first, second = (ResultsFile(path, run, CORDWOOD) for run in ("first", "second"))
    first.add(outcome("node killed", 0.5))
    second.add(outcome("link cut", 1.5))
    first.add(outcome("node paused", 9.0))
    first.judge([Violation(Kind.ORDER, "2 before 1")])
    assert read_results([path]) == [
        Result(
            CORDWOOD,
            [outcome("node killed", 0.5), outcome("node paused", 9.0)],
            [str(Violation(Kind.ORDER, "2 before 1"))],
        ),
        Result(CORDWOOD, [outcome("link cut", 1.5)]),
    ]


def test_a_comparison_has_a_row_for_each_fault_and_counts_only_judged_runs() -> None:
    killed = [outcome("node killed", gap_s) for gap_s in (0.5, 0.3, 2.0)]
    table = comparison(
        [
            Result(CORDWOOD, killed, []),
            Result(CORDWOOD, [outcome("link cut", 1.5)]),
            Result(KAFKA, [outcome("node killed", 9.0)], []),
        ]
    ).splitlines()
    assert table[2:] == [
        "| node killed | 3 | 0.5 (2.0) | 1.5 (3.0) | 0.5 (2.0) | 4.0 (4.0) | 1 | 9.0 | 10.0 | 9.0 | 4.0 |",
        "| link cut | 1 | 1.5 | 2.5 | 1.5 | 4.0 |  |  |  |  |  |",
        "",
        "Cordwood: 3 faults in 1 judged runs, 0 violations; 1 faults in runs that were cut short.",
        "Apache Kafka: 1 faults in 1 judged runs, 0 violations.",
    ]
