"""Loading: whatever is in a log comes into a fresh state, and what cannot be read is passed over and said."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.loading import load
from cordwood.coordinator.partition_log import PartitionLog
from cordwood.coordinator.record import CoordinatorRecord
from cordwood.log.config import LogConfig
from cordwood.log.idempotence.producers import AppendOrigin
from cordwood.log.recovery import open_log
from cordwood.metadata.image import MetadataImage
from cordwood.replica.partition import ACKS_ALL
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.wire.compression import Codec
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from data_dir_check.directory import unpack
from tests.coordinator.shards import Diary, Stage, entry, on_stage, writes

VECTORS = Path(__file__).parent.parent / "vectors"


async def loaded(stage: Stage) -> Diary:
    diary = Diary(stage.clock)
    await load("group", "t-0", stage.log, diary, stage.clock)
    assert diary.is_loaded
    return diary


def test_a_reloaded_state_equals_the_old_one() -> None:
    async def test(stage: Stage) -> None:
        stage.shard.decide(writes("a", "b"))
        stage.shard.decide(writes("c", producer=ProducerIdAndEpoch(7, 1)))
        stage.shard.decide(writes("d"))
        assert (await loaded(stage)).entries == stage.diary.entries

    on_stage(test)


@pytest.mark.parametrize("codec", Codec)
def test_batches_of_any_codec_are_read(codec: Codec) -> None:
    async def test(stage: Stage) -> None:
        log = PartitionLog(stage.partition, stage.clock, stage.disk_errors.append, codec)
        assert log.append([entry(f"group-{number}", "x" * 100) for number in range(50)], None) == 0
        assert stage.log.size < 50 * 100 or codec == Codec.NONE
        assert (await loaded(stage)).names == [f"group-{number}" for number in range(50)]

    on_stage(test)


def test_markers_show_how_transactions_ended() -> None:
    async def test(stage: Stage) -> None:
        for producer_id, commit in ((7, True), (8, False)):
            producer = ProducerIdAndEpoch(producer_id, 0)
            stage.shard.decide(writes(f"of {producer_id}", producer=producer))
            stage.shard_log.append_marker(producer, 0, commit=commit)
        diary = await loaded(stage)
        assert diary.ended == [(7, True), (8, False)]
        assert diary.entries == [("of 7", 0, 7), ("of 8", 2, 8)]

    on_stage(test)


def test_unknown_records_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def test(stage: Stage) -> None:
        stage.shard.decide(writes("a"))
        _append(stage, b"\x7f\x00later", b"\x00\x00")
        _append(stage, b"\x00", b"")
        _append(stage, None, b"keyless")
        stage.shard.decide(writes("b"))
        assert (await loaded(stage)).entries == [("a", 0, -1), ("b", 4, -1)]

    on_stage(test)
    assert [record.levelno for record in caplog.records if record.name.endswith("loading")] == [logging.WARNING] * 3


def _append(stage: Stage, key: bytes | None, value: bytes | None) -> None:
    batch = encode_batch([Record(0, stage.clock.now_ms(), key, value, ())])
    stage.partition.append(batch, ACKS_ALL, stage.clock.now_ms(), AppendOrigin.COORDINATOR)


def test_a_tombstone_reaches_the_state() -> None:
    async def test(stage: Stage) -> None:
        values: list[object] = []

        class Values(Diary):
            def replay(self, records: Any, first_offset: int, producer_id: int) -> None:
                values.extend(record.value for record in records)

        stage.shard_log.append([CoordinatorRecord(entry("a").key, None)], None)
        await load("group", "t-0", stage.log, Values(stage.clock), stage.clock)
        assert values == [None]

    on_stage(test)


def test_a_log_is_loaded_in_pieces_of_any_size() -> None:
    """The size of reads, each of which must contain a whole batch."""

    async def test(stage: Stage) -> None:
        for number in range(20):
            stage.shard.decide(writes(*(f"{number}/{index}" for index in range(number + 1))))
        for read_bytes in (1, 100, 1000, 1 << 20):
            diary = Diary(stage.clock)
            await load("group", "t-0", stage.log, diary, stage.clock, read_bytes=read_bytes)
            assert diary.entries == stage.diary.entries

    on_stage(test)


def test_other_work_runs_while_a_long_log_is_loaded() -> None:
    async def test(stage: Stage) -> None:
        for number in range(1000):
            stage.shard.decide(writes(str(number)))
        turns = 0

        async def serve() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        serving = asyncio.get_running_loop().create_task(serve())
        diary = await loaded(stage)
        serving.cancel()
        assert len(diary.entries) == 1000
        assert turns >= 5

    on_stage(test)


# A log that Kafka wrote


@pytest.fixture(scope="module")
def stated() -> dict[str, Any]:
    groups: dict[str, Any] = json.loads(gzip.decompress((VECTORS / "kafka-data-dir.json.gz").read_bytes()))["live"]
    return groups["groups"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> list[GroupShardState]:
    directory = unpack(VECTORS / "kafka-data-dir.tar.gz", str(tmp_path_factory.mktemp("kafka")))
    config = standalone_config(Layer("test", {"log.dirs": directory}), port=0)
    clock, image = SystemClock(), MetadataImage()
    states = []
    for index in range(5):
        log = open_log(
            LocalDisk(directory), f"__consumer_offsets-{index}", LogConfig(), SeededRandom(1), now_ms=clock.now_ms()
        )
        state = GroupShardState(clock, SeededRandom(1), lambda: config, lambda: image, lambda _group: {})
        asyncio.run(load("group", log.directory, log, state, clock))
        states.append(state)
    return states


def test_kafkas_groups_are_the_ones_that_it_listed(kafkas: list[GroupShardState], stated: dict[str, Any]) -> None:
    groups = {
        group_id: (group.type.value.capitalize(), group.protocol_type, group.state_name)
        for state in kafkas
        for group_id, group in state.groups.items()
    }
    assert groups == {
        group_id: (group["type"], group["protocol"], group["state"]) for group_id, group in stated.items()
    }


def test_loaded_offsets_match_those_that_kafka_reported(kafkas: list[GroupShardState], stated: dict[str, Any]) -> None:
    """Those of transactions that were committed among them, and none of those that were aborted or are open."""
    offsets = {
        group_id: {
            f"{topic}-{partition}": {
                "offset": offset.offset,
                "leaderEpoch": offset.leader_epoch,
                "metadata": offset.metadata,
            }
            for topic, partitions in state.offsets.of_group(group_id).items()
            for partition, offset in partitions.items()
        }
        for state in kafkas
        for group_id in state.groups
    }
    assert offsets == {group_id: group["offsets"] for group_id, group in stated.items()}


def test_transactions_left_open_by_kafka_are_pending(kafkas: list[GroupShardState]) -> None:
    pending = [
        (group_id, state)
        for state in kafkas
        for group_id in state.groups
        if state.offsets.has_open_transaction(group_id)
    ]
    [(group_id, state)] = pending
    assert group_id == "open-group"
    assert state.offsets.is_pending("open-group", "plain", 0)
