"""A broker's background work, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.broker.background import Background
from cordwood.log.checkpoints.formats import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from cordwood.log.log import Log
from cordwood.metadata.image import BROKER_DEFAULT
from cordwood.metadata.storage.snapshot import CHECKPOINT
from cordwood.replica.partition import ACKS_ALL
from cordwood.replica.slices import SLICE_STEPS
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from data_answers.batches import batch
from tests.broker.simulated import SimulatedNode, simulate

DATA = "/data"
# A few records make a segment.
SMALL_SEGMENTS = {"internal.segment.bytes": "200"}
# The most that one step of any work is worth.
LARGEST_STEP = 64
MINUTE_S = 60.0


def log_of(node: SimulatedNode, topic: str = "t", index: int = 0) -> Log:
    log = node.partition(topic, index).log
    assert log is not None
    return log


def append(node: SimulatedNode, *values: str, topic: str = "t", index: int = 0, key: str | None = None) -> None:
    for value in values:
        records = batch(value, timestamps=[node.broker.clock.now_ms()], keys=None if key is None else [key])
        node.partition(topic, index).append(records, ACKS_ALL, node.broker.clock.now_ms())


def background(node: SimulatedNode) -> Background:
    return node.node.background


def disk_of(node: SimulatedNode) -> SimDisk:
    return node.machine.disks[DATA]


def files(node: SimulatedNode, suffix: str) -> list[str]:
    return [path for path in disk_of(node).files() if path.endswith(suffix)]


async def alter(node: SimulatedNode, **settings: str) -> None:
    """For all brokers, while they run."""
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in settings.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER_DEFAULT.type, resource_name="", configs=configs)]
    )
    response = await node.broker.controller.ask(request)
    assert not response.responses[0].error_code, response


# Retention and deletion


def test_old_segments_go_at_the_retention_check_and_not_before() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {**SMALL_SEGMENTS, "retention.bytes": "400"})
        append(node, *"abcdefghij")
        await asyncio.sleep(29)
        assert log_of(node).start_offset == 0, "the first check is after log.initial.task.delay.ms"
        await asyncio.sleep(2)
        first = log_of(node).start_offset
        assert first > 0
        append(node, *"klmnopqrst")
        await asyncio.sleep(3)
        assert log_of(node).start_offset == first
        await asyncio.sleep(3)
        assert log_of(node).start_offset > first

    simulate(test, log_retention_check_interval_ms="5000")


def test_files_of_deleted_segments_go_after_the_delay_and_not_on_the_loop() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {**SMALL_SEGMENTS, "retention.bytes": "400", "file.delete.delay.ms": "10000"})
        append(node, *"abcdefghij")
        await asyncio.sleep(31)
        assert files(node, ".log.deleted")
        await asyncio.sleep(8)
        assert files(node, ".log.deleted")
        on_the_loop = watch_the_loop(node)
        await asyncio.sleep(3)
        assert not files(node, ".deleted")
        assert on_the_loop == []

    simulate(test)


def test_files_of_a_deleted_topic_go_after_the_delay_and_not_on_the_loop() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 3)
        append(node, *"abc")
        await node.delete("t")
        assert not [path for path in disk_of(node).files() if path.startswith("t-0/")]
        assert [path for path in disk_of(node).files() if "-delete/" in path]
        await asyncio.sleep(8)
        assert [path for path in disk_of(node).files() if "-delete/" in path]
        on_the_loop = watch_the_loop(node)
        await asyncio.sleep(4)
        assert not [path for path in disk_of(node).files() if "-delete" in path]
        assert on_the_loop == []

    simulate(test, log_segment_delete_delay_ms="10000")


# Flushes and checkpoints


def test_a_topic_s_flush_ms_is_kept_whatever_the_scheduler_s_interval_is() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {"flush.ms": "2000"})
        await asyncio.sleep(31)
        append(node, "a")
        assert log_of(node).durability.recovery_point == 0
        await asyncio.sleep(5)
        assert log_of(node).durability.recovery_point == 1

    simulate(test)


def test_without_flush_ms_nothing_is_flushed_by_time() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        append(node, "a")
        await asyncio.sleep(10 * MINUTE_S)
        assert log_of(node).durability.recovery_point == 0

    simulate(test)


def test_checkpoints_follow_at_their_intervals() -> None:
    async def test(node: SimulatedNode) -> None:
        disk = disk_of(node)
        await node.create("t")
        await asyncio.sleep(31)
        append(node, *"abc")
        await asyncio.sleep(6)
        assert read_offsets(disk, HIGH_WATERMARKS)["t", 0] == 3
        log_of(node).flush(node.broker.clock.now_ms())
        log_of(node).advance_start(2)
        await asyncio.sleep(1)
        assert read_offsets(disk, RECOVERY_POINTS).get(("t", 0), 0) == 0
        await asyncio.sleep(MINUTE_S)
        assert read_offsets(disk, RECOVERY_POINTS)["t", 0] == 3
        assert read_offsets(disk, LOG_START_OFFSETS)["t", 0] == 2

    simulate(test)


def test_recovery_points_are_not_recorded_ahead_of_flushes() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        append(node, *"abc")
        job = log_of(node).begin_flush(node.broker.clock.now_ms())
        await asyncio.sleep(2 * MINUTE_S)
        assert read_offsets(disk_of(node), RECOVERY_POINTS)["t", 0] == 0
        job.run()
        log_of(node).end_flush(job)

    simulate(test)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 5)
        append(node, *"abc")
        await asyncio.sleep(62 * MINUTE_S)
        steps = disk_of(node).steps
        await asyncio.sleep(90 * MINUTE_S)
        assert disk_of(node).steps == steps

    simulate(test)


def test_checkpoints_stop_speaking_of_a_deleted_topic_soon() -> None:
    """So that making one of the same name does not have to write them first."""

    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        append(node, *"abc")
        log_of(node).flush(node.broker.clock.now_ms())
        await asyncio.sleep(2 * MINUTE_S)
        await node.delete("t")
        await asyncio.sleep(7)
        assert all(("t", 0) not in read_offsets(disk_of(node), name) for name in (HIGH_WATERMARKS, RECOVERY_POINTS))
        on_the_loop = watch_the_loop(node)
        await node.create("t")
        assert on_the_loop == []

    simulate(test)


def test_a_flush_blocks_in_a_thread_only() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 100, {"flush.ms": "1000"})
        await asyncio.sleep(31)
        on_the_loop = watch_the_loop(node)
        for index in range(100):
            append(node, "a", index=index)
        await asyncio.sleep(10)
        assert all(log_of(node, index=index).durability.recovery_point == 1 for index in range(100))
        assert on_the_loop == []

    simulate(test)


# Compaction


def test_a_compacted_topic_is_compacted() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        append(node, *(f"v{number}" for number in range(50)), key="k")
        size = log_of(node).size
        on_the_loop = watch_the_loop(node)
        await asyncio.sleep(20)
        assert log_of(node).size < size / 2
        assert on_the_loop == []

    simulate(test)


def test_a_stop_ends_the_compaction_that_is_in_progress() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        append(node, *(f"v{number}" for number in range(50)), key="k")
        while not background(node).cleaner.is_busy(("t", 0)):
            await asyncio.sleep(0)
        began = node.time()
        await node.machine.stop()
        assert node.time() - began < MINUTE_S, "at one byte a second it would take hours"
        assert not files(node, ".cleaned")

    simulate(test, log_cleaner_io_max_bytes_per_second="1", log_cleaner_backoff_ms="100")


def test_the_cleaner_follows_dynamic_settings() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        await asyncio.sleep(1)
        await alter(node, log_cleaner_backoff_ms="100", log_cleaner_threads="2")
        append(node, *(f"v{number}" for number in range(50)), key="k")
        size = log_of(node).size
        await asyncio.sleep(3)
        assert log_of(node).size < size / 2
        assert background(node).cleaner.config.threads == 2

    simulate(test, log_cleaner_backoff_ms="1000000")


# Producers and metadata


def test_idle_producers_are_forgotten_also_when_the_time_is_changed_while_it_runs() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        for producer_id in range(3):
            records = batch("a", timestamps=[node.broker.clock.now_ms()], producer_id=producer_id, epoch=0, sequence=0)
            node.partition("t").append(records, ACKS_ALL, node.broker.clock.now_ms())
        await asyncio.sleep(30 * MINUTE_S)
        assert len(log_of(node).producers.by_id) == 3
        await alter(node, producer_id_expiration_ms="60000")
        await asyncio.sleep(11 * MINUTE_S)
        assert log_of(node).producers.by_id == {}

    simulate(test)


def test_a_snapshot_of_the_metadata_is_written_when_enough_was_committed() -> None:
    async def test(node: SimulatedNode) -> None:
        before = files(node, CHECKPOINT)
        await node.create("t", 200)
        await asyncio.sleep(6)
        assert len(files(node, CHECKPOINT)) > len(before)
        await node.machine.stop()
        assert await node.machine.start()
        assert node.machine.node is not None
        assert len(node.machine.node.broker.replicas) == 200

    simulate(test, metadata_log_max_record_bytes_between_snapshots="10000")


# Bounds


def watch_the_loop(node: SimulatedNode) -> list[tuple[str, str]]:
    """Records blocking work on the loop's thread from here on: syncs, removals."""
    blocking: list[tuple[str, str]] = []
    loop, watched = node.world.loop, node.machine.disk_stepped

    def stepped(root: str, operation: str, path: str) -> None:
        if operation in ("sync", "remove", "write") and loop._job_slept is None:
            blocking.append((operation, path))
        watched(root, operation, path)

    node.machine.disk_stepped = stepped  # type: ignore[method-assign]
    return blocking


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_no_work_holds_the_loop_for_more_than_a_slice(policy: str) -> None:
    partitions = 1_000

    async def test(node: SimulatedNode) -> None:
        slices: list[int] = []
        background(node).slices.on_slice = slices.append
        await node.create("t", partitions, {"cleanup.policy": policy, "flush.ms": "1000"})
        for index in range(partitions):
            append(node, "a", index=index, key="k")
        # Every kind of work comes at least once.
        await asyncio.sleep(11 * MINUTE_S)
        assert max(slices) < SLICE_STEPS + LARGEST_STEP
        # The count of a run with twenty partitions per step, so it was cut into slices.
        assert len(slices) >= partitions // (20 * SLICE_STEPS)

    simulate(test, log_retention_check_interval_ms="60000")


def test_a_log_of_many_old_segments_is_shortened_in_slices() -> None:
    async def test(node: SimulatedNode) -> None:
        slices: list[int] = []
        background(node).slices.on_slice = slices.append
        await node.create("t", 1, {**SMALL_SEGMENTS, "retention.ms": "1000"})
        append(node, *map(str, range(600)))
        segments = len(log_of(node).segments)
        assert segments > 100
        await asyncio.sleep(32)
        assert log_of(node).start_offset == 600
        assert max(slices) < SLICE_STEPS + LARGEST_STEP
        assert sum(slices) >= segments

    simulate(test)
