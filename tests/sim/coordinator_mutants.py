"""Ways to break the coordinators of a node. The checks have to find each."""

import asyncio
import importlib
from contextlib import suppress
from typing import Any

from cordwood.broker.fetch import reading as fetch_read
from cordwood.broker.produce.transactional import TransactionalProduce, _Generation
from cordwood.broker.transactions.marker import Marker
from cordwood.broker.transactions.marker_writer import MarkerWriter
from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.consumer.consumer_group import ConsumerGroup
from cordwood.coordinator.groups.offsets import Offsets
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.partition_log import PartitionLog
from cordwood.coordinator.transactions import adding, ending, housekeeping, initializing
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.log.log import Log
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.timers import Timers
from tests.sim.mutants import Mutant, Patch

# Their package has names for the handlers, and not for the modules.
init_producer_id = importlib.import_module("cordwood.broker.handlers.init_producer_id")
end_txn = importlib.import_module("cordwood.broker.handlers.end_txn")


def answer_before_the_commit(patch: Patch) -> None:
    patch.setattr(PartitionLog, "is_committed", property(lambda _: True))


# ---- groups


def take_commits_of_any_generation(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "check_offset_commit", lambda *_args, **_options: None)


def take_commits_of_any_epoch(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "check_offset_commit", lambda *_args, **_options: None)


def give_partitions_that_are_not_free(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "owner_epoch", lambda *_: -1)


def wait_for_nobody_to_join(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "have_all_joined", property(lambda _: True))


def take_members_for_dead_too_early(patch: Patch) -> None:
    after = Timers.after

    def sooner(timers: Timers, key: Any, delay_ms: float, alarm: Any) -> None:
        after(timers, key, delay_ms * 0.3, alarm)

    patch.setattr(Timers, "after", sooner)


def wait_for_ever(patch: Patch) -> None:
    """For members that are gone, and for what they were to do."""
    patch.setattr(Timers, "after", lambda *_: None)


def forget_offsets_at_a_start(patch: Patch) -> None:
    patch.setattr(GroupShardState, "loaded", lambda state: state.offsets.by_group.clear())


# ---- transactions


def lose_pending_offsets(patch: Patch) -> None:
    end = Offsets.replay_end_txn
    patch.setattr(Offsets, "replay_end_txn", lambda offsets, producer, commit: end(offsets, producer, commit=False))


def count_pending_offsets_at_once(patch: Patch) -> None:
    add = Offsets._add
    patch.setattr(Offsets, "_add", lambda offsets, key, committed, _producer: add(offsets, key, committed, -1))


def write_no_abort_markers(patch: Patch) -> None:
    write = MarkerWriter.write

    def written(markers: MarkerWriter, topic: str, index: int, marker: Marker) -> Promise[None] | None:
        return write(markers, topic, index, marker) if marker.commit else None

    patch.setattr(MarkerWriter, "write", written)


def commit_the_first_partition_and_abort_the_rest(patch: Patch) -> None:
    write = MarkerWriter.write

    def written(markers: MarkerWriter, topic: str, index: int, marker: Marker) -> Promise[None] | None:
        return write(markers, topic, index, marker._replace(commit=marker.commit and index == 0))

    patch.setattr(MarkerWriter, "write", written)


def forget_what_is_prepared_at_a_start(patch: Patch) -> None:
    patch.setattr(TransactionShardState, "loaded", lambda _: None)


def let_zombies_go_on(patch: Patch) -> None:
    """The coordinator takes any epoch for the present one."""
    transaction_of = adding._transaction_of
    end = ending.end_transaction

    def any_epoch(state: TransactionShardState, transactional_id: str, producer: Any) -> Any:
        return transaction_of(state, transactional_id, state.transaction(transactional_id).client)

    def ended(state: TransactionShardState, request: Any, producer_ids: Any, *, bumps_epoch: bool) -> Any:
        request.producer_epoch = state.transaction(request.transactional_id).client.producer_epoch
        return end(state, request, producer_ids, bumps_epoch=bumps_epoch)

    patch.setattr(adding, "_transaction_of", any_epoch)
    patch.setattr(end_txn, "end_transaction", ended)


def write_outside_of_transactions(patch: Patch) -> None:
    """Where the broker must not add a partition, it does not check whether the producer has."""
    check = TransactionalProduce._check

    def unasked(produce: TransactionalProduce, name: str, producer: Any, batches: Any, generation: Any) -> Any:
        return check(produce, name, producer, batches, generation) if generation is _Generation.ADDING else {}

    patch.setattr(TransactionalProduce, "_check", unasked)


def abort_what_is_prepared_in_time(patch: Patch) -> None:
    """As if it were not an outside coordinator's."""
    patch.setattr(initializing, "NO_TIMEOUT_MS", 500)


def keep_nothing_that_is_prepared(patch: Patch) -> None:
    init = initializing.init_producer_id

    def without_keeping(state: TransactionShardState, request: Any, producer_ids: Any) -> Any:
        request.keep_prepared_txn = False
        return init(state, request, producer_ids)

    patch.setattr(init_producer_id, "init_transactional_id", without_keeping)


def show_what_is_not_decided(patch: Patch) -> None:
    patch.setattr(Log, "last_stable_offset", property(lambda log: log.high_watermark))


def show_offsets_that_are_pending_over(patch: Patch) -> None:
    """To those who asked to wait for them as well."""
    patch.setattr(Offsets, "is_pending", lambda *_: False)


def complete_before_the_markers_are_written(patch: Patch) -> None:
    write = MarkerWriter.write

    def written(markers: MarkerWriter, topic: str, index: int, marker: Marker) -> None:
        def later() -> None:
            with suppress(Refusal):
                write(markers, topic, index, marker)

        asyncio.get_running_loop().call_later(0.05, later)

    patch.setattr(MarkerWriter, "write", written)


def abort_without_a_new_epoch(patch: Patch) -> None:
    """So that a fenced producer may continue."""
    fence = ending.fence

    def fenced(state: TransactionShardState, transaction: Any) -> Any:
        return fence(state, transaction)._replace(producer_epoch=transaction.producer_epoch)

    for module in (ending, initializing, housekeeping):
        patch.setattr(module, "fence", fenced)


def do_not_tell_what_is_aborted(patch: Patch) -> None:
    read = fetch_read.FetchRead._read

    def silent(self: Any, *args: Any) -> Any:
        answer = read(self, *args)
        answer.aborted_transactions = []
        return answer

    patch.setattr(fetch_read.FetchRead, "_read", silent)


GROUP_MUTANTS: list[Mutant] = [
    answer_before_the_commit,
    take_commits_of_any_generation,
    take_commits_of_any_epoch,
    give_partitions_that_are_not_free,
    wait_for_nobody_to_join,
    take_members_for_dead_too_early,
    wait_for_ever,
    forget_offsets_at_a_start,
]

TRANSACTION_MUTANTS: list[Mutant] = [
    answer_before_the_commit,
    lose_pending_offsets,
    count_pending_offsets_at_once,
    write_no_abort_markers,
    commit_the_first_partition_and_abort_the_rest,
    forget_what_is_prepared_at_a_start,
    let_zombies_go_on,
    write_outside_of_transactions,
    show_what_is_not_decided,
    do_not_tell_what_is_aborted,
    show_offsets_that_are_pending_over,
    complete_before_the_markers_are_written,
    abort_without_a_new_epoch,
    abort_what_is_prepared_in_time,
    keep_nothing_that_is_prepared,
]
