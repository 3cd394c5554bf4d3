"""Whole consumers in groups: joins, leaves, stalls and deaths; listeners; what is committed is not read again."""

import asyncio
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.subscription import SubscriptionPattern
from cordwood.client.errors import ClientError, CommitFailed
from cordwood.client.offset_types import OffsetAndMetadata
from tests.client.group_cluster import GroupCluster, play

CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
EAGER: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": ("range",)}
COOPERATIVE: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": ("cooperative-sticky",)}
every_protocol = pytest.mark.parametrize("protocol", [CONSUMER, EAGER, COOPERATIVE], ids=["kip848", "eager", "coop"])


class Listener:
    """Records its calls, in order; `during` is called when partitions are revoked."""

    def __init__(self, during: Any = None) -> None:
        self.log: list[tuple[str, set[int]]] = []
        self.held: set[int] = set()
        self._during = during

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        if self._during is not None:
            await self._during(revoked)
        self._release("revoked", revoked)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        added = {partition.partition for partition in assigned}
        assert not added & self.held
        self.held |= added
        self.log.append(("assigned", added))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._release("lost", lost)

    def _release(self, word: str, partitions: list[TopicPartition]) -> None:
        released = {partition.partition for partition in partitions}
        assert released <= self.held
        self.held -= released
        self.log.append((word, released))


@every_protocol
def test_members_read_every_record_once_between_them(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        readers = [await cluster.reader(f"r{number}", **protocol) for number in range(3)]
        await cluster.until_shared(*readers)
        await cluster.produce(1000)
        await cluster.until(lambda: sum(len(reader.seen) for reader in readers) >= 1000)
        assert sorted(number for reader in readers for number in reader.seen) == list(range(1000))

    play(scene)


@every_protocol
def test_a_later_member_continues_without_repeats(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(500)
        first = await cluster.reader("first", **protocol)
        await cluster.until(lambda: len(first.seen) == 500)
        second = await cluster.reader("second", **protocol)
        await cluster.produce(200)
        await cluster.until_shared(first, second)
        await cluster.produce(300)
        await cluster.until(lambda: len(first.seen) + len(second.seen) >= 1000)
        assert sorted(first.seen + second.seen) == list(range(1000))

    play(scene)


@every_protocol
def test_closing_commits_read_offsets(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(300)
        first = await cluster.reader("first", **protocol)
        await cluster.until(lambda: len(first.seen) == 300)
        await first.close()
        await cluster.produce(100)
        second = await cluster.reader("second", **protocol)
        await cluster.until(lambda: len(second.seen) >= 100)
        assert sorted(second.seen) == list(range(300, 400))

    play(scene)


@every_protocol
def test_records_committed_by_a_dead_member_are_not_read_again_and_others_are(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(300)
        first = await cluster.reader("first", enable_auto_commit=False, **protocol)
        await cluster.until(lambda: len(first.seen) == 300)
        await first.stall()
        await first.consumer.commit()
        first.resume()
        await cluster.produce(100)
        await cluster.until(lambda: len(first.seen) == 400)
        second = await cluster.reader("second", **protocol)
        await first.kill()
        await cluster.until(lambda: len(second.seen) >= 100)
        assert sorted(second.seen) == list(range(300, 400))

    play(scene)


@every_protocol
def test_read_offsets_are_committed_automatically_after_the_interval(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(100)
        first = await cluster.reader("first", auto_commit_interval_ms=1_000, **protocol)
        await cluster.until(lambda: len(first.seen) == 100)

        async def all_committed() -> bool:
            found = await first.consumer.committed()
            return sum(at.offset for at in found.values() if at is not None) == 100

        while not await all_committed():
            await asyncio.sleep(0.1)
        await first.kill()

    play(scene)


@every_protocol
def test_a_stalled_member_cannot_commit_and_rejoins_with_the_next_poll(
    protocol: dict[str, Any],
) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first = await cluster.reader("first", listener=listener, max_poll_interval_ms=6_000, **protocol)
        second = await cluster.reader("second", **protocol)
        await cluster.until_shared(first, second)
        await cluster.produce(100)
        await cluster.until(lambda: len(first.seen) + len(second.seen) == 100)
        await first.stall()
        had = {partition.partition for partition in first.assignment}
        await cluster.until(lambda: second.assignment == cluster.partitions)
        with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
            await first.consumer.commit()
        del listener.log[:]
        first.resume()
        await cluster.until_shared(first, second)
        assert listener.log[0] == ("lost", had)

    play(scene)


@every_protocol
def test_listeners_get_revocations_before_assignments(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listeners = [Listener() for _ in range(3)]
        readers = []
        for number, listener in enumerate(listeners):
            readers.append(await cluster.reader(f"r{number}", listener=listener, **protocol))
            await cluster.until_shared(*readers)
        for reader, listener in zip(readers, listeners, strict=True):
            assert {partition.partition for partition in reader.assignment} == listener.held
        assert all(word != "lost" for listener in listeners for word, _ in listener.log)
        await readers[0].close()
        assert listeners[0].held == set()
        assert listeners[0].log[-1][0] == "revoked"
        await cluster.until_shared(*readers[1:])

    play(scene)


@every_protocol
def test_a_listener_commits_revoked_partitions(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(100)

        async def commit(revoked: list[TopicPartition]) -> None:
            positions = {part: OffsetAndMetadata(await first.consumer.position(part), "revoked") for part in revoked}
            await first.consumer.commit(positions)

        first = await cluster.reader("first", listener=Listener(commit), enable_auto_commit=False, **protocol)
        await cluster.until(lambda: len(first.seen) == 100)
        second = await cluster.reader("second", enable_auto_commit=False, **protocol)
        await cluster.until_shared(first, second)
        committed = await second.consumer.committed()
        assert all(at is not None and at.metadata == "revoked" for at in committed.values())
        await cluster.produce(100)
        await cluster.until(lambda: len(set(first.seen + second.seen)) == 200)
        assert not set(second.seen) & set(range(100))

    play(scene)


@every_protocol
def test_a_static_member_that_restarts_reads_on_and_others_notice_nothing(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first = await cluster.reader("first", group_instance_id="1", **protocol)
        second = await cluster.reader("second", group_instance_id="2", listener=listener, **protocol)
        await cluster.until_shared(first, second)
        await cluster.produce(100)
        await cluster.until(lambda: len(first.seen) + len(second.seen) == 100)
        had = first.assignment
        del listener.log[:]
        await first.close()
        await cluster.produce(100)
        again = await cluster.reader("again", group_instance_id="1", **protocol)
        await cluster.until(lambda: len(first.seen) + len(second.seen) + len(again.seen) >= 200)
        assert again.assignment == had
        assert listener.log == []
        assert sorted(first.seen + second.seen + again.seen) == list(range(200))

    play(scene)


@every_protocol
def test_callbacks_of_commits_are_called_in_order_within_the_applications_calls(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        reader = await cluster.reader("first", enable_auto_commit=False, **protocol)
        await cluster.until_shared(reader)
        part = min(cluster.partitions)
        told: list[tuple[int, ClientError | None]] = []
        for offset in range(20):
            reader.consumer.commit_async(
                {part: OffsetAndMetadata(offset)}, lambda offsets, error: told.append((offsets[part].offset, error))
            )
        await cluster.until(lambda: len(told) == 20)
        assert told == [(offset, None) for offset in range(20)]

    play(scene)


def test_a_pattern_that_the_broker_matches_finds_topics_that_come_later() -> None:
    async def scene(cluster: GroupCluster) -> None:
        later = f"{cluster.topic}-later"
        reader = await cluster.reader("first", pattern=SubscriptionPattern(f"{cluster.topic}.*"), **CONSUMER)
        await cluster.until_shared(reader)
        await cluster.create(later, 2)
        wanted = cluster.partitions | {TopicPartition(later, index) for index in range(2)}
        await cluster.until(lambda: reader.assignment == wanted)

    play(scene)


@every_protocol
def test_unsubscribing_leaves_and_allows_rejoining(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        first = await cluster.reader("first", **protocol)
        second = await cluster.reader("second", **protocol)
        await cluster.until_shared(first, second)
        await first.stall()
        await first.consumer.unsubscribe()
        assert first.assignment == set()
        await cluster.until_shared(second)
        first.consumer.subscribe([cluster.topic])
        first.resume()
        await cluster.until_shared(first, second)

    play(scene)


@pytest.mark.parametrize(("old", "new"), [(COOPERATIVE, CONSUMER), (CONSUMER, COOPERATIVE)], ids=["up", "down"])
def test_a_group_moves_to_the_other_protocol_and_reads_everything(old: dict[str, Any], new: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        await cluster.produce(200)
        olds = [await cluster.reader(f"old{number}", **old) for number in range(2)]
        await cluster.until_shared(*olds)
        news = [await cluster.reader("new0", **new)]
        await cluster.until_shared(*olds, *news)
        await cluster.produce(200)
        await olds[0].close()
        news.append(await cluster.reader("new1", **new))
        await cluster.until_shared(olds[1], *news)
        await olds[1].close()
        await cluster.until_shared(*news)
        await cluster.produce(200)
        # Classic members that missed the last epochs are unknown when the group becomes classic, and lose their
        # partitions: so uncommitted records are read again.
        await cluster.until(lambda: len({number for reader in (*olds, *news) for number in reader.seen}) == 600)

    play(scene)
