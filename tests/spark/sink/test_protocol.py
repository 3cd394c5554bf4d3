"""The sink's protocol: exactly once, whoever is killed at whichever step, with zombies and two drivers about."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.sink.effects import Decide, End, ListOpen, OwnLedger, Pause, ReadLedger
from cordwood.spark.sink.ledger_entry import LedgerEntry
from cordwood.spark.sink.protocol import (
    NOTHING_DECIDED,
    Outcome,
    Steps,
    SweptAway,
    abort_batch,
    abort_job,
    commit_batch,
    commit_job,
    sweep_run,
)
from cordwood.spark.sink.transactions import NamePool, Scope
from tests.spark.sink_model import Broker, Sweeper, World

SCOPE = Scope("q", "r")
A, B, C = (LeftTransaction(f"cordwood-spark/q/r/p/{number}", number, 4, True) for number in range(3))

chances = st.integers(0, 1 << 32).map(Random)


@settings(max_examples=500, deadline=None)
@given(chances, st.booleans())
def test_every_row_is_visible_once_after_any_history(chance: Random, bumps: bool) -> None:
    world = World(bumps=bumps)
    world.play(chance, steps=200)
    world.finish(chance, batches=2)
    world.check_all_visible()


@settings(max_examples=100, deadline=None)
@given(chances)
def test_nothing_stays_open_once_a_batch_is_decided_after_all_attempts_are_over(chance: Random) -> None:
    world = World(bumps=True)
    world.play(chance, steps=100)
    world.finish(chance, batches=1)
    assert world.broker.open("cordwood-spark/") == ()


@settings(max_examples=500, deadline=None)
@given(chances, st.booleans())
def test_every_row_is_visible_once_with_several_drivers_from_the_same_batch_on(chance: Random, bumps: bool) -> None:
    """They take each other's open transactions for orphans."""
    world = World(bumps=bumps)
    for _ in range(chance.choice([2, 3])):
        world.start_driver()
    world.play(chance, steps=200)
    world.finish(chance, batches=2)
    world.check_all_visible()


def test_a_driver_that_wakes_up_late_aborts_nothing_of_its_successor() -> None:
    world = World(bumps=True)
    world.start_driver()
    (older,) = world.drivers
    world.drive_to(older, 0, Decide)
    world.drive(older)  # its decision stands, and it has done nothing since
    world.start_driver()
    newer = world.drivers[-1]
    world.drive_to(newer, 1, Decide)  # the next batch is prepared
    world.drive_past(older, 0)
    world.drive_past(newer, 1)
    world.check_all_visible()
    assert not world.lost


@settings(max_examples=300, deadline=None)
@given(chances, st.booleans())
def test_the_first_commit_after_a_restart_leaves_nothing_open_of_former_lives(chance: Random, bumps: bool) -> None:
    """Also where that commit is of a batch that a former life has decided."""
    world = World(bumps=bumps)
    world.play(chance, steps=100)
    world.bury()
    world.start_driver()
    world.drive_past(world.drivers[-1], world.drivers[-1].batch)
    assert world.broker.open("cordwood-spark/") == ()
    world.check_all_visible()


def test_a_batch_that_was_swept_while_it_was_written_cannot_be_decided() -> None:
    """Two drivers: the older one is a batch ahead of the other, which takes what it has open for orphans."""
    world = World(bumps=True)
    world.start_driver()
    (older,) = world.drivers
    world.start_driver()
    newer = world.drivers[-1]
    world.drive_past(older, 0)
    older.start_processes()
    world.drive_to(older, 1, OwnLedger)  # the next batch is prepared
    world.drive_past(newer, 0)
    assert world.broker.open("cordwood-spark/") == ()
    while not older.is_dead:
        world.drive(older)
    assert len(world.swept_away) == 1
    world.drive_past(newer, 2)
    world.check_all_visible()
    assert not world.lost


@settings(max_examples=300, deadline=None)
@given(chances, st.booleans())
def test_sweeping_a_run_leaves_nothing_open_and_decided_batches_visible(chance: Random, bumps: bool) -> None:
    world = World(bumps=bumps)
    world.play(chance, steps=100)
    world.bury()
    decided = world.broker.last
    for number in range(len(world.drivers)):
        sweeper = Sweeper(world, number)
        while not sweeper.is_over:
            sweeper.step()
    assert world.broker.open("cordwood-spark/") == ()
    if decided is not None:
        assert {row[0] for row in world.broker.visible} == set(range(decided.batch + 1))
    world.finish(chance, batches=2)
    world.check_all_visible()


def test_a_commit_that_begins_after_its_run_was_swept_decides_nothing() -> None:
    """The process that commits may live on for a moment after the query was stopped."""
    for batch in (0, 1):
        world = World(bumps=True)
        world.start_driver()
        (driver,) = world.drivers
        world.drive_to(driver, batch, OwnLedger)
        sweeper = Sweeper(world, 0)
        while not sweeper.is_over:
            sweeper.step()
        assert world.broker.open("cordwood-spark/") == ()
        while not driver.is_dead:
            world.drive(driver)
        assert len(world.swept_away) == 1
        assert not world.lost
        world.start_driver()
        world.drive_past(world.drivers[-1], batch)
        world.check_all_visible()


def run(steps: Steps[object], *answers: object) -> list[object]:
    """The effects, each answered by the next of the answers."""
    effects = [next(steps)]
    given_answers = iter(answers)
    try:
        while True:
            effects.append(steps.send(next(given_answers, None)))
    except StopIteration as stop:
        return [*effects, stop.value]


def test_a_batch_is_decided_before_any_of_its_transactions_is_ended() -> None:
    assert run(commit_batch(SCOPE, 7, [A, B], at_once=1), None, None, ()) == [
        OwnLedger("q"),
        ReadLedger("q"),
        ListOpen("cordwood-spark/q/"),
        Decide("q", LedgerEntry(7, "r", (A, B))),
        End((A,), commit=True),
        End((B,), commit=True),
        Outcome.DECIDED,
    ]


def test_open_transactions_not_named_by_the_decision_are_aborted() -> None:
    assert run(commit_batch(SCOPE, 7, [A]), None, None, (A, C))[-2:] == [End((C,), commit=False), Outcome.DECIDED]


def test_a_batch_that_a_former_life_decided_is_completed_and_ours_are_aborted() -> None:
    assert run(commit_batch(SCOPE, 7, [A]), None, LedgerEntry(7, "before", (B, C)), None, (A,)) == [
        OwnLedger("q"),
        ReadLedger("q"),
        End((B, C), commit=True),
        ListOpen("cordwood-spark/q/"),
        End((A,), commit=False),
        Outcome.DECIDED_BEFORE,
    ]


def test_orphans_of_a_batch_that_was_decided_are_aborted_after_the_ledger_has_another_number() -> None:
    before = LedgerEntry(7, "before", (A,), sweeps=4)
    assert run(commit_batch(SCOPE, 7, []), None, before, None, (B, C)) == [
        OwnLedger("q"),
        ReadLedger("q"),
        End((A,), commit=True),
        ListOpen("cordwood-spark/q/"),
        Decide("q", LedgerEntry(7, "before", (A,), sweeps=5)),
        ReadLedger("q"),
        End((B, C), commit=False),
        Outcome.DECIDED_BEFORE,
    ]


def test_a_decision_keeps_the_number_of_sweeps() -> None:
    last = LedgerEntry(6, "before", (), sweeps=4)
    assert run(commit_batch(SCOPE, 7, [A], begun_at={4}), None, last, ())[3] == Decide(
        "q", LedgerEntry(7, "r", (A,), sweeps=4)
    )


def test_transactions_begun_before_a_sweep_cannot_be_committed() -> None:
    with pytest.raises(SweptAway, match="another driver of query q has continued from batch 6"):
        run(commit_batch(SCOPE, 7, [A], begun_at={3, 4}), None, LedgerEntry(6, "before", (), sweeps=4))


def test_of_a_batch_older_than_the_ledger_ours_are_aborted() -> None:
    assert run(commit_batch(SCOPE, 7, [A]), None, LedgerEntry(8, "r", (B,)))[2:] == [
        End((A,), commit=False),
        Outcome.DECIDED_BEFORE,
    ]


def test_an_abort_after_a_failed_commit_keeps_decided_transactions() -> None:
    assert run(abort_batch(SCOPE, 7, [A, B]), None, LedgerEntry(7, "r", (A,)))[2:] == [End((B,), commit=False), None]


def test_a_batch_without_rows_is_decided_too() -> None:
    assert run(commit_batch(SCOPE, 7, []), None, None, ())[3:] == [
        Decide("q", LedgerEntry(7, "r", ())),
        Outcome.DECIDED,
    ]


def test_a_jobs_lost_attempts_are_aborted_with_its_commit() -> None:
    assert run(commit_job(SCOPE, [A]), None, (B,)) == [
        End((A,), commit=True),
        ListOpen("cordwood-spark/q/r/"),
        End((B,), commit=False),
        None,
    ]


def test_a_failed_job_is_looked_after_until_its_last_tasks_have_ended() -> None:
    effects = run(abort_job(SCOPE, [A]), (), None, None, (B,), None, None, ())
    assert effects == [
        ListOpen("cordwood-spark/q/r/"),
        End((A,), commit=False),
        Pause(1.0),
        ListOpen("cordwood-spark/q/r/"),
        End((B,), commit=False),
        Pause(1.0),
        ListOpen("cordwood-spark/q/r/"),
        None,
    ]


def test_sweeping_a_stopped_run_commits_decided_transactions() -> None:
    last = LedgerEntry(7, "r", (A, B), sweeps=4)
    assert run(sweep_run(SCOPE), (B, C), None, last) == [
        ListOpen("cordwood-spark/q/r/"),
        OwnLedger("q"),
        ReadLedger("q"),
        End((B,), commit=True),
        Decide("q", LedgerEntry(7, "r", (A, B), sweeps=5)),
        ReadLedger("q"),
        End((C,), commit=False),
        1,
    ]


def test_a_run_that_has_left_nothing_open_leaves_the_ledger_alone() -> None:
    assert run(sweep_run(SCOPE), ()) == [ListOpen("cordwood-spark/q/r/"), 0]


def test_a_run_is_swept_before_its_first_decision() -> None:
    assert run(sweep_run(SCOPE), (A,), None, None)[3:] == [
        Decide("q", LedgerEntry(NOTHING_DECIDED, "r", (), sweeps=1)),
        ReadLedger("q"),
        End((A,), commit=False),
        1,
    ]


def test_a_name_is_used_again_only_in_a_later_batch() -> None:
    pool = NamePool("x/", "p")
    assert [pool.take(batch) for batch in (0, 0, 1, 1, 1)] == ["x/p/0", "x/p/1", "x/p/0", "x/p/1", "x/p/2"]


def test_an_entry_is_read_as_it_was_written() -> None:
    for transactions in ((), (A,), (A, B, C)):
        entry = LedgerEntry(7, "r", transactions, sweeps=2)
        assert LedgerEntry.decode(entry.encode()) == entry


def test_an_entry_of_the_first_version_is_read() -> None:
    value = b'{"version":1,"batch":7,"run":"r","prefix":"x/","transactions":[["0",5,4,1]]}'
    assert LedgerEntry.decode(value) == LedgerEntry(7, "r", (LeftTransaction("x/0", 5, 4, True),))


def test_the_model_shows_records_only_after_their_commit() -> None:
    broker = Broker(bumps=True)
    left = broker.init("x")
    broker.write(left, (0, 0, 0))
    assert not broker.visible
    broker.end(left, commit=True)
    broker.end(left, commit=True)
    assert broker.visible == {(0, 0, 0): 1}
