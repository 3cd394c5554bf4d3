"""The shard runtime: the order of events, and the answers to pending requests."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from cordwood.shard.decision import Answer, Decision, ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.coordinator.shards import TIMEOUT_MS, Diary, Stage, entry, on_stage, reads, writes


def waiting(result: Any) -> Promise[Any]:
    assert isinstance(result, Promise)
    assert not result.done
    return result


def error_of(promise: Promise[Any]) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        promise.result()
    return refused.value.error


# Deciding


def test_records_are_in_the_state_when_the_decision_is_answered() -> None:
    async def test(stage: Stage) -> None:
        assert stage.shard.decide(writes("a", "b")) == "written"
        assert stage.diary.entries == [("a", 0, -1), ("b", 1, -1)]

    on_stage(test)


def test_records_of_a_transaction_have_the_producers_identity() -> None:
    async def test(stage: Stage) -> None:
        stage.shard.decide(writes("a", producer=ProducerIdAndEpoch(7, 1)))
        assert stage.diary.entries == [("a", 0, 7)]
        assert stage.log.producers.by_id[7].txn_first_offset == 0

    on_stage(test)


def test_a_decision_that_is_refused_writes_nothing() -> None:
    async def test(stage: Stage) -> None:
        def refuses(_diary: Diary) -> Decision[str]:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")

        with pytest.raises(Refusal):
            stage.shard.decide(refuses)
        assert stage.log.end_offset == 0
        assert stage.shard.decide(writes("a")) == "written"

    on_stage(test)


def test_a_refused_append_leaves_the_state_unchanged_and_notifies_the_decision() -> None:
    async def test(stage: Stage) -> None:
        told: list[ErrorCode] = []
        decision = Decision("written", [entry("a", "x" * 2000)], refused=lambda refusal: told.append(refusal.error))
        with pytest.raises(Refusal):
            stage.shard.decide(lambda _diary: decision)
        assert told == [ErrorCode.MESSAGE_TOO_LARGE]
        assert stage.diary.entries == []
        assert stage.shard.decide(writes("b")) == "written"

    on_stage(test, max_message_bytes="1000")


def test_a_failing_disk_refuses_the_decision_and_is_reported() -> None:
    async def test(stage: Stage) -> None:
        stage.disk.fail_next("append to")
        with pytest.raises(Refusal) as refused:
            stage.shard.decide(writes("a"))
        assert refused.value.error == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0)
        assert len(stage.disk_errors) == 1

    on_stage(test)


def test_a_shard_whose_directory_is_offline_has_nothing_to_show() -> None:
    async def test(stage: Stage) -> None:
        assert stage.shard.settled_state is stage.diary
        stage.partition.go_offline()
        assert stage.shard.settled_state is None

    on_stage(test)


def test_a_disk_failure_callback_may_make_decisions() -> None:
    async def test(stage: Stage) -> None:
        told: list[list[str]] = []
        stage.shard_log._disk_failed = lambda _error: told.append(stage.shard.decide(reads()))  # type: ignore[arg-type]
        stage.disk.fail_next("append to")
        with pytest.raises(Refusal):
            stage.shard.decide(writes("a"))
        await asyncio.sleep(0)
        assert told == [[]]

    on_stage(test)


# Answering at the high watermark


def test_a_write_is_answered_when_it_is_committed() -> None:
    async def test(stage: Stage) -> None:
        promise = waiting(stage.shard.decide(writes("a")))
        assert stage.diary.names == ["a"], "whoever decides next has to see it"
        stage.flush()
        assert promise.result() == "written"

    on_stage(test, flush_messages="1")


def test_a_read_waits_until_its_data_is_committed() -> None:
    async def test(stage: Stage) -> None:
        stage.shard.decide(writes("a"))
        promise = waiting(stage.shard.decide(reads()))
        stage.flush()
        assert promise.result() == ["a"]
        assert stage.shard.decide(reads()) == ["a"]

    on_stage(test, flush_messages="1")


def test_answers_are_given_in_the_order_of_the_decisions() -> None:
    async def test(stage: Stage) -> None:
        order: list[int] = []
        for number in range(3):
            promise = waiting(stage.shard.decide(writes(str(number))))
            promise.then(lambda _outcome, number=number: order.append(number))  # type: ignore[misc]
        stage.flush()
        assert order == [0, 1, 2]

    on_stage(test, flush_messages="1")


def test_commits_during_a_write_are_reported_after_it() -> None:
    """A notified listener may decide at once: the state must be complete then."""

    async def test(stage: Stage) -> None:
        first = waiting(stage.shard.decide(writes("a")))
        seen: list[Any] = []
        first.then(lambda _outcome: seen.append(stage.shard.decide(reads())))

        def flushes_meanwhile(_diary: Diary) -> Decision[str]:
            stage.flush()
            return Decision("second", [entry("b")])

        second = waiting(stage.shard.decide(flushes_meanwhile))
        stage.flush()
        assert second.result() == "second"
        assert [promise.result() for promise in seen] == [["a", "b"]]

    on_stage(test, flush_messages="1")


def test_a_waiting_request_is_answered_by_a_later_committed_decision() -> None:
    async def test(stage: Stage) -> None:
        joining: Promise[str] = Promise()
        assert stage.shard.decide(lambda _diary: Decision[str](joining)) is joining
        answered = Decision("done", [entry("a")], answers=[Answer(joining, "you are in")])
        stage.shard.decide(lambda _diary: answered)
        assert not joining.done
        stage.flush()
        assert joining.result() == "you are in"

    on_stage(test, flush_messages="1")


def test_a_request_with_nothing_to_wait_for_is_answered_at_once() -> None:
    async def test(stage: Stage) -> None:
        joining: Promise[str] = Promise()
        decision = Decision[str](joining, [entry("a")], answers=[Answer(joining, "alone")])
        assert stage.shard.decide(lambda _diary: decision) == "alone"

    on_stage(test)


def test_effects_are_performed_after_the_commit_and_before_the_response() -> None:
    async def test(stage: Stage) -> None:
        seen: list[tuple[str, list[str]]] = []
        written = waiting(stage.shard.decide(writes("a", effects=["send"])))
        written.then(lambda outcome: seen.append((str(outcome), list(stage.performed))))
        assert not stage.performed
        stage.flush()
        assert seen == [("written", ["send"])]

    on_stage(test, flush_messages="1")


def test_effects_of_a_decision_that_is_committed_at_once_are_performed_before_it_returns() -> None:
    async def test(stage: Stage) -> None:
        stage.shard.decide(writes("a", effects=["send", "tell"]))
        assert stage.performed == ["send", "tell"]

    on_stage(test)


def test_effects_of_records_that_are_not_committed_are_never_performed() -> None:
    async def test(stage: Stage) -> None:
        waiting(stage.shard.decide(writes("a", effects=["send"])))
        stage.another_leads()
        stage.flush()
        assert not stage.performed

    on_stage(test, flush_messages="1")


def test_a_decision_not_committed_in_time_is_answered_with_a_timeout() -> None:
    async def test(stage: Stage) -> None:
        promise = waiting(stage.shard.decide(writes("a")))
        await asyncio.sleep(TIMEOUT_MS / 1000 - 0.1)
        assert not promise.done
        await asyncio.sleep(0.2)
        assert error_of(promise) == ErrorCode.REQUEST_TIMED_OUT
        stage.flush()
        assert error_of(promise) == ErrorCode.REQUEST_TIMED_OUT, "the first answer is the one"

    on_stage(test, flush_messages="1")


def test_waiting_for_a_later_decision_does_not_time_out() -> None:
    async def test(stage: Stage) -> None:
        joining: Promise[str] = Promise()
        stage.shard.decide(writes("a"))
        stage.shard.decide(lambda _diary: Decision[str](joining))
        await asyncio.sleep(10 * TIMEOUT_MS / 1000)
        assert not joining.done

    on_stage(test, flush_messages="1")


def test_a_leader_that_resigns_fails_pending_commits() -> None:
    async def test(stage: Stage) -> None:
        promise = waiting(stage.shard.decide(writes("a")))
        stage.another_leads()
        assert error_of(promise) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_stage(test, flush_messages="1")


def test_closing_a_shard_fails_its_waiters_and_later_requests() -> None:
    async def test(stage: Stage) -> None:
        joining: Promise[str] = Promise()
        stage.shard.decide(lambda _diary: Decision[str](joining))
        writing = waiting(stage.shard.decide(writes("a")))
        stage.shard.close(Refusal(ErrorCode.NOT_COORDINATOR, "moved"))
        assert [error_of(promise) for promise in (joining, writing)] == [ErrorCode.NOT_COORDINATOR] * 2
        with pytest.raises(Refusal) as refused:
            stage.shard.decide(reads())
        assert refused.value.error == ErrorCode.NOT_COORDINATOR

    on_stage(test, flush_messages="1")


# Markers


def test_a_marker_is_written_before_the_state_changes() -> None:
    async def test(stage: Stage) -> None:
        seen: list[int] = []
        producer = ProducerIdAndEpoch(7, 1)
        stage.shard.decide(writes("a", producer=producer))
        stage.shard.write(
            lambda: stage.shard_log.append_marker(producer, 0, commit=True),
            lambda: seen.append(stage.log.end_offset),
        )
        assert seen == [2]
        assert stage.log.producers.by_id[7].txn_first_offset == -1

    on_stage(test)


def test_a_marker_that_is_refused_does_not_reach_the_state() -> None:
    async def test(stage: Stage) -> None:
        seen: list[str] = []
        stage.disk.fail_next("append to")
        with pytest.raises(Refusal):
            stage.shard.write(
                lambda: stage.shard_log.append_marker(ProducerIdAndEpoch(7, 1), 0, commit=True),
                lambda: seen.append("ended"),
            )
        assert not seen

    on_stage(test)


# Timers


def test_an_alarm_decides_when_its_time_has_come() -> None:
    async def test(stage: Stage) -> None:
        def arms(diary: Diary) -> Decision[str]:
            diary.timers.after("key", 1000, writes("rung"))
            return Decision("armed")

        stage.shard.decide(arms)
        await asyncio.sleep(0.9)
        assert stage.diary.names == []
        await asyncio.sleep(0.2)
        assert stage.diary.names == ["rung"]

    on_stage(test)


def test_an_alarm_that_is_moved_forward_without_a_decision_rings_then() -> None:
    async def test(stage: Stage) -> None:
        stage.diary.timers.after("key", 60_000, writes("rung"))
        stage.shard.loaded()
        state = stage.shard.settled_state
        assert state is not None
        state.timers.postpone("key", 1000)
        await asyncio.sleep(1.1)
        assert stage.diary.names == ["rung"]

    on_stage(test)


def test_alarms_that_are_set_while_loading_ring_from_then_on() -> None:
    async def test(stage: Stage) -> None:
        stage.diary.timers.after("key", 1000, writes("rung"))
        stage.shard.loaded()
        await asyncio.sleep(1.1)
        assert stage.diary.names == ["rung"]

    on_stage(test)


def test_an_alarm_that_cannot_be_written_is_raised_again() -> None:
    async def test(stage: Stage) -> None:
        sizes = iter([2000, 2000, 1])

        def rings(_diary: Diary) -> Decision[None]:
            return Decision(None, [entry("rung", "x" * next(sizes))])

        stage.diary.timers.after("key", 1000, rings)
        stage.shard.loaded()
        await asyncio.sleep(1.8)
        assert stage.diary.names == []
        await asyncio.sleep(0.5)
        assert stage.diary.names == ["rung"]

    on_stage(test, max_message_bytes="1000")


def test_an_alarm_with_a_bug_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def test(stage: Stage) -> None:
        def fails(_diary: Diary) -> Decision[None]:
            raise KeyError("a bug")

        stage.diary.timers.after("first", 1000, fails)
        stage.diary.timers.after("second", 1000, writes("rung"))
        stage.shard.loaded()
        await asyncio.sleep(1.1)
        assert stage.diary.names == ["rung"]

    on_stage(test)
    assert "Timer first: handler failed" in caplog.text


def test_a_timer_set_for_now_by_a_timer_runs_after_other_work() -> None:
    async def test(stage: Stage) -> None:
        def goes_on(diary: Diary) -> Decision[None]:
            if len(diary.entries) < 5:
                diary.timers.after("key", 0, goes_on)
            return Decision(None, [entry("step")])

        stage.diary.timers.after("key", 1000, goes_on)
        stage.shard.loaded()
        await asyncio.sleep(1)
        seen = []
        while len(stage.diary.entries) < 6:
            seen.append(len(stage.diary.entries))
            await asyncio.sleep(0)
        assert {1, 2, 3, 4, 5} <= set(seen)

    on_stage(test)


def test_many_alarms_at_once_do_not_delay_other_work() -> None:
    async def test(stage: Stage) -> None:
        for number in range(1000):
            stage.diary.timers.after(number, 1000, writes("rung"))
        stage.shard.loaded()
        await asyncio.sleep(1)
        seen = {0}
        while len(stage.diary.entries) < 1000:
            seen.add(len(stage.diary.entries))
            await asyncio.sleep(0)
        assert max(later - earlier for earlier, later in pairwise([*sorted(seen), 1000])) <= 100

    on_stage(test)


def test_follow_up_decisions_are_made_before_the_first_is_answered() -> None:
    async def test(stage: Stage) -> None:
        def turns(diary: Diary) -> Decision[str]:
            diary.timers.follow_ups.append(("key", writes("second")))
            return Decision("turned", [entry("first")])

        answer = stage.shard.decide(turns)
        assert isinstance(answer, Promise)
        assert stage.diary.names == ["first", "second"]
        stage.flush()
        assert answer.result() == "turned"

    on_stage(test, flush_messages="1")


def test_nothing_follows_a_decision_that_was_refused() -> None:
    async def test(stage: Stage) -> None:
        def turns(diary: Diary) -> Decision[str]:
            diary.timers.follow_ups.append(("key", writes("second")))
            return Decision("turned", [entry("first", "x" * 2000)])

        with pytest.raises(Refusal):
            stage.shard.decide(turns)
        stage.shard.decide(writes("third"))
        await asyncio.sleep(10)
        assert stage.diary.names == ["third"]

    on_stage(test, max_message_bytes="1000")


def test_a_failed_follow_up_is_raised_again() -> None:
    async def test(stage: Stage) -> None:
        sizes = iter([2000, 1])

        def follows(_diary: Diary) -> Decision[None]:
            return Decision(None, [entry("second", "x" * next(sizes))])

        def turns(diary: Diary) -> Decision[str]:
            diary.timers.follow_ups.append(("key", follows))
            return Decision("turned", [entry("first")])

        assert stage.shard.decide(turns) == "turned"
        assert stage.diary.names == ["first"]
        await asyncio.sleep(0.6)
        assert stage.diary.names == ["first", "second"]

    on_stage(test, max_message_bytes="1000")


def test_no_alarm_rings_in_a_shard_that_is_closed() -> None:
    async def test(stage: Stage) -> None:
        stage.diary.timers.after("key", 1000, writes("rung"))
        stage.shard.loaded()
        stage.shard.close(Refusal(ErrorCode.NOT_COORDINATOR, "moved"))
        await asyncio.sleep(2)
        assert stage.diary.names == []

    on_stage(test)
