"""AlterReplicaLogDirs: what clients see of a replica that moves between log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.log import Log
from cordwood.node import Node
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Network
from cordwood.wire.batch_header import batch_headers, whole_batches_length
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch, encode_batch
from kafka_answers.conversation import Conversation
from tests.broker.admin_node import ask, run, running

TWO_DIRECTORIES = Conversation([], log_dirs=2)
KEY = ("t", 0)
_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_BROKER = 4


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


class Mover:
    """A topic with one partition, and two directories that it may lie in."""

    def __init__(self, node: Node, network: Network) -> None:
        self.node = node
        self.network = network

    async def create(self) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        created = await ask(self.node, self.network, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        assert not created.topics[0].error_code

    async def produce(self, text: str, size: int = 1) -> None:
        value = text.encode() * size
        data = encode_batch([Record(0, 1_700_000_000_000, None, value, ())])
        partition = PartitionProduceData(index=0, records=data)
        topic = TopicProduceData(name="t", partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        produced = await ask(self.node, self.network, request, version=9)
        assert not produced.responses[0].partition_responses[0].error_code

    async def move(self, index: int) -> ErrorCode:
        path = self.directories[index].disk.root
        wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        answer = await ask(self.node, self.network, AlterReplicaLogDirsRequest(dirs=[wanted]))
        return ErrorCode(answer.results[0].partitions[0].error_code)

    async def set_rate(self, rate: str) -> None:
        config = AlterableConfig(name=_RATE, config_operation=0, value=rate)
        resource = AlterConfigsResource(resource_type=_BROKER, resource_name="1", configs=[config])
        answer = await ask(self.node, self.network, IncrementalAlterConfigsRequest(resources=[resource]))
        assert not answer.responses[0].error_code

    async def described(self) -> list[list[tuple[bool, int, int]]]:
        """For each directory: whether it is a future replica, its size, its lag."""
        answer = await ask(self.node, self.network, DescribeLogDirsRequest(topics=None))
        return [
            [
                (partition.is_future_key, partition.partition_size, partition.offset_lag)
                for topic in result.topics
                for partition in topic.partitions
            ]
            for result in answer.results
        ]

    @property
    def directories(self) -> list[LogDirectory]:
        return self.node.broker.replicas.directories.directories

    @property
    def place(self) -> int:
        return next(index for index, directory in enumerate(self.directories) if KEY in directory.logs)

    @property
    def log(self) -> Log:
        partition = self.node.broker.partition(*KEY)
        assert partition is not None
        assert partition.log is not None
        return partition.log


def test_a_replica_moves_with_all_that_is_in_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, TWO_DIRECTORIES) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            await mover.produce("before")
            destination = 1 - mover.place
            size = mover.log.size
            assert await mover.move(destination) is ErrorCode.NONE
            await until(lambda: mover.place == destination)
            await mover.produce("after")
            assert (mover.log.high_watermark, mover.log.end_offset) == (2, 2)
            assert mover.log.size > size
            await until(lambda: _assigned(node) == mover.directories[destination].id)

    run(main())


def _assigned(node: Node) -> bytes:
    state = node.broker.image.topics.partition(*KEY)
    assert state is not None
    return state.directory_of(1)


@pytest.mark.parametrize("flush_messages", ["1", "9223372036854775807"])
def test_records_written_while_a_replica_moves_are_not_lost(tmp_path: Path, flush_messages: str) -> None:
    async def main() -> None:
        settings = {"log_flush_interval_messages": flush_messages}
        async with running(tmp_path, TWO_DIRECTORIES, **settings) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            produced = 0
            is_done = False

            async def produce() -> None:
                nonlocal produced
                while not is_done:
                    await mover.produce(f"{produced} ", 10)
                    produced += 1

            producing = [asyncio.create_task(produce())]
            for _ in range(6):
                destination = 1 - mover.place
                assert await mover.move(destination) is ErrorCode.NONE
                await until(lambda destination=destination: mover.place == destination)  # type: ignore[misc]
            is_done = True
            await asyncio.gather(*producing)
            assert produced > 0
            assert _values(mover.log) == [f"{number} ".encode() * 10 for number in range(produced)]

    run(main())


def _values(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < log.end_offset:
        read = log.read(len(found), 1 << 20, log.end_offset)
        assert read is not None
        data = read.read()
        for position, _ in batch_headers(data[: whole_batches_length(data)]):
            found += [record.value for record in decode_batch(data, position)]
    return found


def test_a_move_in_progress_is_described_and_can_be_taken_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, TWO_DIRECTORIES) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            for _ in range(3):
                await mover.produce("x", 300_000)
            place = mover.place
            # The first copy is made at once; the second waits for hours.
            await mover.set_rate("10")
            await mover.move(1 - place)
            await until(lambda: KEY in mover.directories[1 - place].futures)
            described = await mover.described()
            assert described[place] == [(False, mover.log.size, 0)]
            ((is_future, size, lag),) = described[1 - place]
            assert is_future
            assert (size, lag) == (mover.log.size // 3, 2)
            assert await mover.move(place) is ErrorCode.NONE
            assert node.broker.moves.lag_of(*KEY) == 0

    run(main())


def test_a_partition_that_is_deleted_ends_its_move(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, TWO_DIRECTORIES) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            for _ in range(3):
                await mover.produce("x", 300_000)
            await mover.set_rate("1000000")
            destination = mover.directories[1 - mover.place]
            await mover.move(1 - mover.place)
            await until(lambda: KEY in destination.futures)
            await ask(node, network, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=30_000))
            await until(lambda: KEY not in destination.futures)

    run(main())


@pytest.mark.parametrize("records", [0, 3])
def test_a_move_that_a_stop_interrupts_is_resumed(tmp_path: Path, records: int) -> None:
    async def begin() -> int:
        async with running(tmp_path, TWO_DIRECTORIES) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            for _ in range(records):
                await mover.produce("x", 300_000)
            place = mover.place
            await mover.set_rate("1000000")
            await mover.move(1 - place)
            if records:
                await until(lambda: KEY in mover.directories[1 - place].futures)
            return place

    async def go_on(place: int) -> None:
        async with running(tmp_path, TWO_DIRECTORIES) as (node, network, _):
            mover = Mover(node, network)
            await until(lambda: mover.place == 1 - place)
            assert mover.log.end_offset == records

    run(go_on(run(begin())))


def test_no_move_begins_while_a_directory_is_offline(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, Conversation([], log_dirs=3)) as (node, network, _):
            mover = Mover(node, network)
            await mover.create()
            place = mover.place
            # The first holds the metadata: it is not to fail.
            failed = next(index for index in (1, 2) if index != place)
            other = next(index for index in range(3) if index not in (place, failed))
            with pytest.raises(DiskError) as raised:
                mover.directories[failed].disk.open("no such file").read(0, 1)
            node.broker.replicas.disk_failed(raised.value)
            assert await mover.move(other) is ErrorCode.KAFKA_STORAGE_ERROR
            assert await mover.move(failed) is ErrorCode.KAFKA_STORAGE_ERROR
            assert await mover.move(place) is ErrorCode.NONE

    run(main())
