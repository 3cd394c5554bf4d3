"""Disks that are really full or gone, under a node that runs as a separate process."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cordwood.net.peers.channel import Channel
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from data_answers.batches import batch
from data_answers.requests import fetch, produce
from tests.broker.in_process import PATIENCE_S, run

# No file may grow past this: what a full disk looks like to a process that has it for itself.
LARGEST_FILE_BYTES = 3 << 20
BATCH = "x" * 900_000


class Process:
    def __init__(self, popen: subprocess.Popen[str], errors: Path) -> None:
        self._popen = popen
        self._errors = errors
        assert popen.stdout is not None
        ready = popen.stdout.readline()
        assert "is ready: bootstrap " in ready, ready + self.errors()
        host, _, port = ready.split("bootstrap ")[1].split(",")[0].strip().rpartition(":")
        self.host, self.port = host, int(port)

    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def is_running(self) -> bool:
        return self._popen.poll() is None

    def end(self) -> int:
        self._popen.send_signal(signal.SIGTERM)
        return self.exit_code()

    def exit_code(self) -> int:
        return self._popen.wait(PATIENCE_S)

    async def connect(self) -> Channel:
        return await Channel.open(SocketNetwork(), self.host, self.port, client_id="test")


@contextmanager
def process_at(folder: Path, *log_dirs: str, metadata: str) -> Iterator[Process]:
    settings = {
        "log.dirs": ",".join(str(folder / name) for name in log_dirs),
        "metadata.log.dir": str(folder / metadata),
    }
    arguments = [argument for name, value in settings.items() for argument in ("--set", f"{name}={value}")]
    errors = folder / "stderr"
    with errors.open("w") as stderr:
        popen = subprocess.Popen(
            [sys.executable, "-m", "cordwood", "up", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        resource.prlimit(popen.pid, resource.RLIMIT_FSIZE, (LARGEST_FILE_BYTES, LARGEST_FILE_BYTES))
        yield Process(popen, errors)
    finally:
        popen.kill()
        popen.wait()
        assert popen.stdout is not None
        popen.stdout.close()


async def create(channel: Channel, partitions: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    response = await channel.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    assert not response.topics[0].error_code, response


async def send(channel: Channel, index: int, value: str) -> ErrorCode:
    response = await channel.request(produce("t", batch(value), partition=index, acks=-1), 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def read(channel: Channel, index: int) -> ErrorCode:
    response = await channel.request(fetch({("t", index): 0}), 11)
    return ErrorCode(response.responses[0].partitions[0].error_code)


async def directory_errors(channel: Channel) -> dict[str, ErrorCode]:
    described = await channel.request(DescribeLogDirsRequest(topics=None), 4)
    return {Path(each.log_dir).name: ErrorCode(each.error_code) for each in described.results}


async def fill_a_disk(channel: Channel, index: int) -> ErrorCode:
    for _ in range(2 * LARGEST_FILE_BYTES // len(BATCH)):
        error = await send(channel, index, BATCH)
        if error is not ErrorCode.NONE:
            return error
    raise AssertionError("the disk was never full")


def test_a_full_disk_takes_only_its_own_partitions_offline(tmp_path: Path) -> None:
    async def test(process: Process) -> None:
        channel = await process.connect()
        await create(channel, 2)
        assert await fill_a_disk(channel, 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await send(channel, 1, "still here") is ErrorCode.NONE
        while await send(channel, 0, "?") is ErrorCode.KAFKA_STORAGE_ERROR:
            # Waits until the metadata has no leader for it.
            await asyncio.sleep(0.01)
        assert await read(channel, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await read(channel, 1) is ErrorCode.NONE
        assert sorted((await directory_errors(channel)).values()) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
        channel.close()

    with process_at(tmp_path, "one", "two", metadata="meta") as process:
        run(test(process))
        assert process.end() == 0
        lines = [line for line in process.errors().splitlines() if "is offline" in line]
        assert len(lines) == 1
        assert "File too large" in lines[0]


def test_a_node_whose_metadata_directory_is_full_ends_with_a_message_and_a_code(tmp_path: Path) -> None:
    async def test(process: Process) -> None:
        channel = await process.connect()
        await create(channel, 1)
        assert await fill_a_disk(channel, 0) is ErrorCode.KAFKA_STORAGE_ERROR
        channel.close()

    with process_at(tmp_path, "one", metadata="one") as process:
        run(test(process))
        assert process.exit_code() == 1
        (line,) = [line for line in process.errors().splitlines() if "Fatal error, shutting down" in line]
        assert str(tmp_path / "one") in line
        assert "File too large" in line


def test_a_node_starts_without_a_directory_that_has_disappeared(tmp_path: Path) -> None:
    async def fill(process: Process) -> None:
        channel = await process.connect()
        await create(channel, 4)
        for index in range(4):
            assert await send(channel, index, "a") is ErrorCode.NONE
        channel.close()

    async def look(process: Process) -> None:
        channel = await process.connect()
        errors = [await read(channel, index) for index in range(4)]
        assert sorted(errors) == [ErrorCode.NONE] * 2 + [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        assert await directory_errors(channel) == {"one": ErrorCode.KAFKA_STORAGE_ERROR, "two": ErrorCode.NONE}
        channel.close()

    async def look_again(process: Process) -> None:
        channel = await process.connect()
        assert [await read(channel, index) for index in range(4)] == [ErrorCode.NONE] * 4
        channel.close()

    with process_at(tmp_path, "one", "two", metadata="meta") as process:
        run(fill(process))
        assert process.end() == 0
    # As root may read anything, a directory without permissions would not do.
    (tmp_path / "one").rename(tmp_path / "aside")
    (tmp_path / "one").write_text("not a directory")
    with process_at(tmp_path, "one", "two", metadata="meta") as process:
        run(look(process))
        assert process.end() == 0
        assert "the node starts without it" in process.errors()
    (tmp_path / "one").unlink()
    (tmp_path / "aside").rename(tmp_path / "one")
    with process_at(tmp_path, "one", "two", metadata="meta") as process:
        run(look_again(process))
        assert process.end() == 0
