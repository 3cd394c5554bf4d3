"""A start deletes nothing by mistake: damaged metadata, unknown partitions, foreign folders."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import pytest

from cordwood.broker.start.consent import StartConsent
from cordwood.log.files import file_name
from cordwood.metadata.storage.committed_offset import COMMITTED_OFFSET
from cordwood.replica.partition import ACKS_ALL
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.virtual.disk import SimDisk
from cordwood.sim.world import World
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from data_answers.batches import batch
from data_answers.requests import produce
from tests.broker.in_process import InProcessNode
from tests.broker.simulated import SimulatedNode
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

METADATA = f"__cluster_metadata-0/{file_name(0, '.log')}"
# Longer than deletions are put off.
LONG_S = 200.0
BOTH = StartConsent(allow_strays=True, accept_metadata_loss=True)


class Host:
    """A machine whose node is started and stopped by a test."""

    def __init__(self, world: World, roots: tuple[str, ...]) -> None:
        self.world = world
        self.machine = Machine(world, "broker", {}, roots)

    @property
    def disk(self) -> SimDisk:
        return next(iter(self.machine.disks.values()))

    def files(self, disk: SimDisk | None = None) -> dict[str, bytes]:
        """Without the lock, which says nothing."""
        return {path: data for path, data in (disk or self.disk).files().items() if path != ".lock"}

    async def start(self, consent: StartConsent | None = None) -> InProcessNode:
        self.machine.consent = consent or StartConsent()
        assert await self.machine.start(), self.machine.refusal
        return SimulatedNode(self.world, self.machine)

    async def refusal(self, consent: StartConsent | None = None) -> str:
        """Why it does not start."""
        self.machine.consent = consent or StartConsent()
        assert not await self.machine.start()
        self.machine.repair()
        return self.machine.refusal or ""

    async def stop(self) -> None:
        await self.machine.stop()
        self.machine.repair()

    async def fill(self, *topics: str, partitions: int = 1) -> None:
        """Starts a node that has these topics and some records, and stops it."""
        node = await self.start()
        for topic in topics:
            await self.write(node, topic, partitions)
        await self.stop()

    async def write(self, node: InProcessNode, topic: str, partitions: int = 1) -> None:
        await node.create(topic, partitions)
        for index in range(partitions):
            node.partition(topic, index).append(batch("a", "b"), ACKS_ALL, self.world.clock.now_ms())

    def forget_committed_offset(self) -> None:
        """As if the node had been killed before it recorded how far its metadata is committed."""
        if COMMITTED_OFFSET in self.files():
            self.disk.damage(COMMITTED_OFFSET, None)

    def flip(self, path: str, position: int) -> None:
        data = bytearray(self.disk.files()[path])
        data[position] ^= 1
        self.disk.damage(path, bytes(data))

    def remove_folder(self, folder: str) -> None:
        for path in self.disk.files():
            if path.startswith(f"{folder}/"):
                self.disk.damage(path, None)
        assert self.disk.remove_directory(folder)


def on_host(test: Callable[[Host], Awaitable[None]], roots: tuple[str, ...] = ("/data",)) -> None:
    world = World(1, odds=NetworkOdds(delay_s=0.001, slow=0.0, split=0.0), limit_s=10_000.0)

    async def main() -> None:
        await test(Host(world, roots))

    world.run(main())


def end_of(node: InProcessNode, topic: str, index: int = 0) -> int:
    log = node.partition(topic, index).log
    assert log is not None
    return log.end_offset


def strays(host: Host) -> list[str]:
    return sorted({path.partition("/")[0] for path in host.files() if "-stray/" in path})


# Damaged metadata


def test_damage_to_committed_metadata_refuses_the_start_and_changes_nothing() -> None:
    async def test(host: Host) -> None:
        await host.fill("t", "u")
        whole = host.files()[METADATA]
        position, header = next((at, header) for at, header in batch_headers(whole) if at + header.size > 700)
        host.flip(METADATA, 700)
        before = host.files()
        told = await host.refusal()
        assert f"/data/{METADATA} at position {position}, offset {header.base_offset}" in told
        assert "Restore /data/__cluster_metadata-0 from a backup" in told
        assert "--accept-metadata-loss" in told
        assert host.files() == before

    on_host(test)


def test_a_metadata_log_that_ends_before_its_recorded_end_refuses_the_start() -> None:
    """Cut exactly between two batches it looks whole."""

    async def test(host: Host) -> None:
        await host.fill("t")
        data = host.files()[METADATA]
        *_, (last, header) = batch_headers(data)
        host.disk.damage(METADATA, data[:last])
        told = await host.refusal()
        assert f"offset {header.base_offset}: the file ends there" in told
        assert f"up to offset {header.last_offset} are known to be committed" in told

    on_host(test)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_missing_or_empty_metadata_log_refuses_the_start(is_there: bool) -> None:
    async def test(host: Host) -> None:
        await host.fill("t")
        host.remove_folder("__cluster_metadata-0")
        if is_there:
            host.disk.make_directory("__cluster_metadata-0")
        before = host.files()
        assert "/data/__cluster_metadata-0 is missing or empty" in await host.refusal()
        assert host.files() == before

    on_host(test)


def test_a_clean_stop_of_kafka_says_that_all_of_the_metadata_was_flushed() -> None:
    """It does not record how much that was."""

    async def test(host: Host) -> None:
        await host.fill("t")
        host.forget_committed_offset()
        host.flip(METADATA, len(host.files()[METADATA]) - 1)
        assert "the node was stopped cleanly" in await host.refusal()

    on_host(test)


def test_a_crash_right_after_the_start_from_a_clean_stop_leaves_an_end_that_is_cut_off() -> None:
    """The first thing that a start writes to the metadata log may be torn, while the clean stop is still marked."""

    async def test(host: Host) -> None:
        await host.fill("t")
        host.forget_committed_offset()
        marker = host.files()[".kafka_cleanshutdown"]
        await host.start()
        host.machine.kill()
        host.disk.write_file(".kafka_cleanshutdown", marker)
        data = host.files()[METADATA]
        host.disk.damage(METADATA, data[:-1])
        assert end_of(await host.start(), "t") == 2

    on_host(test)


def test_a_write_that_was_not_finished_is_cut_off_and_kept() -> None:
    async def test(host: Host) -> None:
        node = await host.start()
        await host.write(node, "t")
        host.machine.kill()
        data = host.files()[METADATA]
        host.disk.damage(METADATA, data + data[:100])
        again = await host.start()
        assert end_of(again, "t") == 2
        assert host.files()[f"{METADATA}.corrupt"] == data[:100]

    on_host(test)


def test_damage_followed_by_whole_batches_is_not_an_unfinished_write() -> None:
    async def test(host: Host) -> None:
        node = await host.start()
        await host.write(node, "t")
        await host.write(node, "u")
        host.machine.kill()
        host.forget_committed_offset()
        *_, (at, _), _ = batch_headers(host.files()[METADATA])
        host.flip(METADATA, at + 30)
        assert "whole batches follow" in await host.refusal()

    on_host(test)


def test_partitions_of_metadata_that_was_cut_off_need_consent() -> None:
    """A partition has files only once its topic is committed: what was cut was no unfinished write."""

    async def test(host: Host) -> None:
        node = await host.start()
        await host.write(node, "t")
        host.machine.kill()
        host.forget_committed_offset()
        data = host.files()[METADATA]
        host.flip(METADATA, len(data) - 1)
        for _ in range(2):
            told = await host.refusal()
            assert "does not know 1 of the partitions: /data/t-0. The metadata log was cut" in told
            assert "--allow-strays" in told
        assert "t-0/partition.metadata" in host.files()
        await host.start(StartConsent(allow_strays=True))
        assert len(strays(host)) == 1

    on_host(test)


def test_a_broker_whose_cut_metadata_came_back_from_the_quorum_starts_and_keeps_what_was_moved_away() -> None:
    """Nor does it matter that a power loss has taken the topic's id as well: the partition's name is known."""

    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 3)
        await cluster.ask(3, produce("t", batch("a"), acks=-1), 9)
        await cluster.until_replicated("t")
        cluster.kill(3)
        disk = cluster.machines[3].disks["/data"]
        disk.damage(METADATA, disk.files()[METADATA][:-1])
        disk.damage("t-0/partition.metadata", bytes(43))
        moved = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2])])
        await cluster.broker(1).controller.ask(AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=30_000))
        await cluster.until(lambda: cluster.partition(1, "t").state.replicas == (1, 2))
        await cluster.restart(3)
        files = disk.files()
        assert f"{METADATA}.corrupt" in files
        kept = [path for path in files if re.fullmatch(r"t-0\.[0-9a-f]{32}-stray/0{20}\.log", path)]
        assert len(kept) == 1
        assert files[kept[0]]
        assert await cluster.committed("t") == [b"a"]

    with_three_brokers(test)


def test_with_consent_the_partitions_are_kept_as_strays(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host) -> None:
        await host.fill("t", "u", partitions=2)
        records = {path: data for path, data in host.files().items() if path[:2] in ("t-", "u-")}
        host.flip(METADATA, 700)
        node = await host.start(BOTH)
        await host.write(node, "t")
        await asyncio.sleep(LONG_S)
        assert len(strays(host)) == 4
        for name in strays(host):
            assert re.fullmatch(r"[tu]-[01]\.[0-9a-f]{32}-stray", name)
            old = name.partition(".")[0]
            found = {path: data for path, data in host.files().items() if path.startswith(f"{name}/")}
            assert found == {f"{name}{path[3:]}": data for path, data in records.items() if path.startswith(f"{old}/")}
            assert f"does not know /data/{old}: renamed to {name} and kept" in caplog.text
        assert end_of(node, "t") == 2, "a topic of the same name is another"

    with caplog.at_level(logging.WARNING):
        on_host(test)


def test_an_accepted_loss_of_metadata_is_not_missed_again_after_a_crash() -> None:
    async def test(host: Host) -> None:
        # More records than a start writes.
        await host.fill(*"abcdefgh")
        host.flip(METADATA, 700)
        await host.start(BOTH)
        host.machine.kill()
        host.machine.repair()
        await host.start()
        await host.stop()

    on_host(test)


def test_a_node_that_lost_its_metadata_folder_begins_again_with_consent() -> None:
    """With the folder goes the snapshot that names the voters."""

    async def test(host: Host) -> None:
        await host.fill("t")
        host.remove_folder("__cluster_metadata-0")
        assert "--accept-metadata-loss --allow-strays" in await host.refusal()
        node = await host.start(BOTH)
        assert len(strays(host)) == 1
        await host.write(node, "u")
        await host.stop()
        node = await host.start()
        assert end_of(node, "u") == 2

    on_host(test)


def test_a_damaged_quorum_state_is_rewritten() -> None:
    async def test(host: Host) -> None:
        await host.fill("t")
        path = "__cluster_metadata-0/quorum-state"
        host.disk.damage(path, b"{")
        node = await host.start()
        assert end_of(node, "t") == 2
        assert host.files()[f"{path}.corrupt"] == b"{"

    on_host(test)


# Partitions that the metadata does not know


@pytest.mark.parametrize(("partitions", "starts"), [(3, True), (4, False)])
def test_more_than_a_few_strays_need_consent(partitions: int, starts: bool) -> None:
    async def test(host: Host) -> None:
        await host.fill("old")
        backup = {path: data for path, data in host.files().items() if path.startswith(("__cluster", COMMITTED_OFFSET))}
        await host.fill("new", partitions=partitions)
        host.remove_folder("__cluster_metadata-0")
        host.disk.make_directory("__cluster_metadata-0")
        for path, data in backup.items():
            host.disk.write_file(path, data)
        if not starts:
            before = host.files()
            told = await host.refusal()
            assert "does not know 4 of the partitions: /data/new-0, /data/new-1" in told
            kept = {path: data for path, data in host.files().items() if path.startswith("new-")}
            assert kept == {path: data for path, data in before.items() if path.startswith("new-")}
        node = await host.start(None if starts else StartConsent(allow_strays=True))
        await asyncio.sleep(LONG_S)
        assert len(strays(host)) == partitions
        assert end_of(node, "old") == 2

    on_host(test)


def test_a_deletion_that_a_committed_record_requests_is_finished() -> None:
    """A crash may bring the name of a deleted partition back."""

    async def test(host: Host) -> None:
        await host.fill("t", "u", partitions=5)
        node = await host.start()
        await node.delete("t")
        await host.stop()
        doomed = sorted({path.partition("/")[0] for path in host.files() if "-delete/" in path})
        assert len(doomed) == 5
        for name in doomed[:4]:
            host.disk.rename(name, name.partition(".")[0])
        node = await host.start()
        await asyncio.sleep(LONG_S)
        assert not [path for path in host.files() if path.startswith("t-")]
        assert end_of(node, "u", 4) == 2

    on_host(test)


def test_a_directory_that_was_offline_while_topics_were_deleted_may_hold_many_strays() -> None:
    async def test(host: Host) -> None:
        await host.fill("t", partitions=12)
        _, two = host.machine.disks.values()
        two.fail_next("lock")
        node = await host.start()
        await node.delete("t")
        await host.stop()
        assert len([path for path in two.files() if path.endswith("partition.metadata")]) > 3
        # Not even the record of the deletion is left.
        host.forget_committed_offset()
        node = await host.start()
        assert not node.broker.replicas.directories.online[1].logs

    on_host(test, ("/one", "/two"))


# Foreign folders


def test_folders_that_are_not_partitions_are_left_alone_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def test(host: Host) -> None:
        await host.fill("t")
        foreign = {"photos-2024/a.jpg": b"x", "photos-7/deep/b.jpg": b"y", "holiday/c.jpg": b"z", "t-00/d": b""}
        for path, data in foreign.items():
            host.disk.make_directory(path.rpartition("/")[0])
            host.disk.create(path).append(data)
        for name in (".hidden", "lost+found"):
            host.disk.make_directory(name)
        node = await host.start()
        await asyncio.sleep(LONG_S)
        assert {path: host.files()[path] for path in foreign} == foreign
        assert end_of(node, "t") == 2
        (line,) = [record.message for record in caplog.records if "are not partitions" in record.message]
        assert line.endswith(": holiday, photos-2024, photos-7, t-00")

    on_host(test)


# Directory ids


def test_partitions_are_served_from_a_directory_whose_id_has_changed() -> None:
    async def test(host: Host) -> None:
        node = await host.start()
        await node.create("t", 5)
        for index in range(4):
            node.partition("t", index).append(batch("a", "b"), ACKS_ALL, host.world.clock.now_ms())
        await host.stop()
        two = host.machine.disks["/two"]
        text = two.files()["meta.properties"].decode()
        two.damage(
            "meta.properties", re.sub("directory.id=.{22}", "directory.id=NVISKppiRt2iIS_3fEof4Q", text).encode()
        )
        node = await host.start()
        assert [end_of(node, "t", index) for index in range(5)] == [2, 2, 2, 2, 0]
        assert all(node.partition("t", index).is_leader for index in range(5))

    on_host(test, ("/one", "/two"))
