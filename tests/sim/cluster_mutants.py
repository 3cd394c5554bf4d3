"""Brokers and controllers whose replication is broken on purpose."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cordwood.coordinator.loading import load
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.log.log import Appended, Log
from cordwood.metadata.controller import alter_partition, partition_change
from cordwood.metadata.controller.partition_change import Assignment, Election
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.image_records import image_records
from cordwood.replica.follower import Fetched, Follower, Truncate
from cordwood.replica.leader import FollowerFetched, FollowerState, Leader
from cordwood.replica.partition import Partition
from cordwood.replica.replicas import Replicas
from cordwood.runtime.disk import Buffer
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.schema import MetadataRecord
from tests.sim.coordinator_mutants import answer_before_the_commit
from tests.sim.mutants import Mutant

# ---- replicas


def acknowledge_before_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "is_acknowledged", lambda self, offset, acks: offset < self.written)


def count_the_leader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark is the end of the leader's log, whatever its followers have."""

    def advance(self: Leader, _now_ms: int) -> bool:
        has_moved = self.end_offset > self.high_watermark
        self.high_watermark = max(self.high_watermark, self.end_offset)
        return has_moved

    monkeypatch.setattr(Leader, "_advance", advance)


def believe_a_follower_before_its_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records count as acknowledged as soon as they were sent to a follower."""
    fetched = FollowerState.fetched

    def believe(self: FollowerState, event: FollowerFetched, leader_end: int, now_ms: int) -> None:
        fetched(self, event._replace(fetch_offset=leader_end), leader_end, now_ms)

    monkeypatch.setattr(FollowerState, "fetched", believe)


def ignore_a_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Follower._fetched

    def keep(self: Follower, event: Fetched, now_ms: int) -> object:
        return [] if event.diverging is not None else step(self, event, now_ms)

    monkeypatch.setattr(Follower, "_fetched", keep)


def truncate_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: a follower cuts its log there when it learns of another leader."""
    leader_changed = Follower._leader_changed

    def cut(self: Follower, leader_epoch: int) -> object:
        is_new = leader_epoch > self._leader_epoch
        effects = leader_changed(self, leader_epoch)
        if is_new and self._log.end_offset > self._log.high_watermark:
            return [Truncate(self._log.high_watermark)]
        return effects

    monkeypatch.setattr(Follower, "_leader_changed", cut)


def _when_elected(monkeypatch: pytest.MonkeyPatch, break_log: Callable[[Log], None]) -> None:
    lead_or_follow = Partition._lead_or_follow

    def elected(self: Partition) -> None:
        if self.is_leader and self.leader is None and self.log is not None:
            break_log(self.log)
        lead_or_follow(self)

    monkeypatch.setattr(Partition, "_lead_or_follow", elected)


def move_the_high_watermark_back_at_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    def back(log: Log) -> None:
        log.high_watermark = max(log.start_offset, log.high_watermark - 3)

    _when_elected(monkeypatch, back)


def forget_producers_at_an_election(monkeypatch: pytest.MonkeyPatch) -> None:
    _when_elected(monkeypatch, lambda log: log.producers.by_id.clear())


def append_without_leading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the leader epoch of a replica is its own."""
    append = Partition.append

    def appended(self: Partition, records: Buffer, acks: int, now_ms: int, *options: Any) -> Appended:
        if self.is_leader or self.log is None:
            return append(self, records, acks, now_ms, *options)
        return self.log.append_as_leader(records, self.state.leader_epoch, now_ms)

    monkeypatch.setattr(Partition, "append", appended)
    readable_log = Partition.readable_log
    monkeypatch.setattr(
        Partition, "readable_log", lambda self, _epoch, leader_only: readable_log(self, -1, leader_only=False)
    )


# ---- the set of those in sync


def apply_an_isr_before_it_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = Leader._propose

    def apply(self: Leader, isr: tuple[int, ...]) -> object:
        effects = propose(self, isr)
        self.isr = isr
        return effects

    monkeypatch.setattr(Leader, "_propose", apply)


def do_not_count_who_is_about_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leader, "maximal_isr", property(lambda self: {*self.isr}))
    monkeypatch.setattr(Leader, "_may_join_soon", lambda *_: False)


def miss_changed_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions continue with the settings that they began with, until something else changes them."""
    monkeypatch.setattr(Replicas, "configure", lambda *_: None)


def accept_a_stale_broker_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before KIP-903: neither the leader nor the controller looks which start of a broker is meant."""
    fetched = Leader._fetched
    monkeypatch.setattr(
        Leader, "_fetched", lambda self, event, now_ms: fetched(self, event._replace(broker_epoch=-1), now_ms)
    )
    monkeypatch.setattr(
        FollowerState,
        "registered",
        lambda self, registered_epoch: setattr(self, "is_eligible", registered_epoch is not None),
    )


# ---- the controller


def end_reassignments_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(self: Assignment, _isr: tuple[int, ...]) -> Assignment:
        staying = tuple(replica for replica in self.replicas if replica not in self.removing)
        return Assignment(staying) if self.adding or self.removing else self

    monkeypatch.setattr(Assignment, "completed", completed)


def elect_whoever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (partition_change, alter_partition):
        monkeypatch.setattr(module, "online_election", lambda *_: Election.UNCLEAN)


def miss_a_record_in_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last partition of each is left out."""

    def without_the_last(image: MetadataImage) -> Iterator[MetadataRecord]:
        records = list(image_records(image))
        partitions = [at for at, record in enumerate(records) if isinstance(record, PartitionRecord)]
        return iter([record for at, record in enumerate(records) if at not in partitions[-1:]])

    monkeypatch.setattr("cordwood.metadata.storage.snapshot_files.image_records", without_the_last)


# ---- coordinators


def serve_while_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(kind: str, name: str, log: Log, state: Any, clock: Any, *, read_bytes: int) -> int:
        """It says that all is loaded, and continues with that."""
        state.loaded()

        async def later() -> None:
            await asyncio.sleep(1.0)
            await load(kind, name, log, state, clock, read_bytes=read_bytes)

        _behind.append(asyncio.ensure_future(later()))
        return 0

    monkeypatch.setattr("cordwood.coordinator.coordinator.load", late)


_behind: list[asyncio.Future[None]] = []


def forget_what_is_prepared_at_a_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new coordinator writes no markers for it."""
    monkeypatch.setattr(TransactionShardState, "loaded", lambda _: None)


CLUSTER_MUTANTS: list[Mutant] = [
    acknowledge_before_the_high_watermark,
    count_the_leader_alone,
    believe_a_follower_before_its_append,
    ignore_a_divergence,
    truncate_to_the_high_watermark,
    move_the_high_watermark_back_at_an_election,
    forget_producers_at_an_election,
    append_without_leading,
    apply_an_isr_before_it_is_committed,
    do_not_count_who_is_about_to_join,
    miss_changed_settings,
    accept_a_stale_broker_epoch,
    end_reassignments_at_once,
    elect_whoever_is_there,
    miss_a_record_in_snapshots,
]
CLUSTER_GROUP_MUTANTS: list[Mutant] = [answer_before_the_commit, serve_while_loading]
CLUSTER_TRANSACTION_MUTANTS: list[Mutant] = [forget_what_is_prepared_at_a_failover]
