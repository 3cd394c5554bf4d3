"""Ways to break the client. The checks have to find each, in a node that is as it should be."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.fetches.aborted import Aborted
from cordwood.client.consumer.fetches.buffers import Buffers
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Lose, Revoke
from cordwood.client.consumer.offsets.commits import Commits
from cordwood.client.consumer.offsets.positions import PartitionState
from cordwood.client.consumer.participation import Participation
from cordwood.client.consumer.reader import Reader
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.sending.sender import Attempt, Sender
from cordwood.client.producer.sending.sequences import Sequences
from cordwood.client.producer.transactions.machine import Transactions

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


# ---- the producer


def send_again_with_a_new_sequence(patch: Patch) -> None:
    sent = Sequences.sent

    def anew(sequences: Sequences, batch: ProducerBatch) -> None:
        if batch.identity is not None:
            state = sequences._partitions[batch.partition]
            state.numbered.pop(batch, None)
            batch.identity = None
        sent(sequences, batch)

    patch.setattr(Sequences, "sent", anew)


def acknowledge_before_the_answer(patch: Patch) -> None:
    drain = Sender.drain

    def drained(sender: Sender, *args: Any) -> Attempt | None:
        attempt = drain(sender, *args)
        if attempt is not None:
            for partition, batch in attempt.batches.items():
                if not batch.outcome.is_done:
                    batch.complete(-1, -1)
                attempt.expired.add(partition)
        return attempt

    patch.setattr(Sender, "drain", drained)


def forget_what_was_not_answered(patch: Patch) -> None:
    """And say that it was written."""

    def unanswered(sender: Sender, attempt: Attempt, batch: ProducerBatch, *_: Any) -> None:
        sender._forget(batch)
        batch.complete(-1, -1)

    patch.setattr(Sender, "_unanswered", unanswered)


def put_back_behind_the_others(patch: Patch) -> None:
    def requeue(accumulator: Accumulator, batches: list[ProducerBatch], now_s: float, backoff_s: float) -> None:
        for batch in batches:
            batch.attempts += 1
            batch.not_before_s = now_s + backoff_s
            batch.identity = None
            accumulator._incomplete[batch.place] = batch
            accumulator._queues.setdefault(batch.partition, deque()).append(batch)

    patch.setattr(Accumulator, "requeue", requeue)


def tell_another_offset(patch: Patch) -> None:
    complete = ProducerBatch.complete

    def completed(batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        complete(batch, base_offset + 1, log_append_time_ms)

    patch.setattr(ProducerBatch, "complete", completed)


def commit_without_what_failed(patch: Patch) -> None:
    patch.setattr(Transactions, "batch_failed", lambda transactions, error: None)


def say_committed_when_it_is_aborted(patch: Patch) -> None:
    patch.setattr(Transactions, "commit", Transactions.abort)


# ---- the consumer


def pass_over_a_record(patch: Patch) -> None:
    seek = PartitionState.seek

    def beyond(state: PartitionState, offset: int, *args: Any) -> None:
        seek(state, offset + 1 if offset else 0, *args)

    patch.setattr(PartitionState, "seek", beyond)


def give_what_was_fetched_before_a_seek(patch: Patch) -> None:
    patch.setattr(Buffers, "discard", lambda buffers, partition: None)


def give_some_records_again(patch: Patch) -> None:
    advance = PartitionState.advance

    def behind(state: PartitionState, offset: int, epoch: int) -> None:
        advance(state, offset - 1, epoch)

    patch.setattr(PartitionState, "advance", behind)


def show_what_was_aborted(patch: Patch) -> None:
    patch.setattr(Aborted, "covers", lambda *_: False)


def hide_all_of_who_has_aborted(patch: Patch) -> None:
    """Also what the same producer has committed."""
    covers = Aborted.covers

    def always(aborted: Aborted, *args: Any) -> bool:
        before = set(aborted._producers)
        covered = covers(aborted, *args)
        aborted._producers |= before
        return covered

    patch.setattr(Aborted, "covers", always)


# ---- the member of a group


def commit_what_was_not_given(patch: Patch) -> None:
    consumed = Reader.consumed

    def beyond(reader: Reader) -> dict[TopicPartition, OffsetAndMetadata]:
        return {partition: told._replace(offset=told.offset + 1) for partition, told in consumed(reader).items()}

    patch.setattr(Reader, "consumed", beyond)


def keep_what_is_revoked(patch: Patch) -> None:
    patch.setattr(Subscription, "withdraw", lambda subscription, partitions: None)


def revoke_without_a_word(patch: Patch) -> None:
    perform = Participation._perform

    async def performed(group: Participation, step: Any) -> None:
        if not isinstance(step, Revoke | Lose):
            await perform(group, step)

    patch.setattr(Participation, "_perform", performed)


def say_committed_before_it_is(patch: Patch) -> None:
    async def commit(commits: Commits, offsets: Any, timeout_s: float | None = None) -> None:
        commits.commit_async(offsets, None)

    patch.setattr(Commits, "commit", commit)


def never_come_back_after_being_fenced(patch: Patch) -> None:
    hear = MembershipDriver._hear
    deaf: list[MembershipDriver] = []

    def heard(driver: MembershipDriver, event: Any) -> None:
        response = getattr(event, "response", None)
        if getattr(response, "error_code", 0):
            deaf.append(driver)
        if driver not in deaf:
            hear(driver, event)

    patch.setattr(MembershipDriver, "_hear", heard)


NODE_MUTANTS: list[Mutant] = [
    send_again_with_a_new_sequence,
    acknowledge_before_the_answer,
    forget_what_was_not_answered,
    put_back_behind_the_others,
    tell_another_offset,
    pass_over_a_record,
    give_what_was_fetched_before_a_seek,
    give_some_records_again,
]
GROUP_MUTANTS: list[Mutant] = [
    commit_what_was_not_given,
    keep_what_is_revoked,
    revoke_without_a_word,
    say_committed_before_it_is,
    never_come_back_after_being_fenced,
]
TRANSACTION_MUTANTS: list[Mutant] = [
    show_what_was_aborted,
    hide_all_of_who_has_aborted,
    commit_without_what_failed,
    say_committed_when_it_is_aborted,
]
