"""The node's directories: what is formatted, what is taken over, what is refused, and how to continue then."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cordwood.broker.start.log_dirs import CannotStart
from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.metadata.bootstrap import first_voter, format_directory
from cordwood.metadata.image import METADATA_VERSION
from cordwood.metadata.storage.reading import read_image
from cordwood.node import Node
from cordwood.raft.voters import VoterSet
from cordwood.replica.partition import ACKS_ALL
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import CannotListen
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from data_answers.batches import batch
from tests.broker.in_process import InProcessNode, run


@asynccontextmanager
async def started(*directories: Path, port: int = 0) -> AsyncIterator[InProcessNode]:
    settings = {"log.dirs": ",".join(map(str, directories))}
    config = standalone_config(Layer("test", settings), port=port)
    node = await Node.start(
        config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(), open_disk=LocalDisk
    )
    try:
        yield InProcessNode(node)
    finally:
        await node.stop()


async def fill(*directories: Path) -> None:
    """A topic of four partitions, of which the last two are not written to."""
    async with started(*directories) as node:
        await node.create("t", 4)
        for index in range(2):
            node.partition("t", index).append(batch("a", "b"), ACKS_ALL, node.broker.clock.now_ms())


async def check_served(*directories: Path) -> None:
    async with started(*directories) as node:
        partitions = [node.partition("t", index) for index in range(4)]
        logs = [partition.log for partition in partitions]
        assert [log is not None and log.end_offset for log in logs] == [2, 2, 0, 0]
        assert all(partition.is_leader for partition in partitions)


async def refusal(*directories: Path) -> str:
    with pytest.raises(CannotStart) as refused:
        async with started(*directories):
            pass
    return str(refused.value)


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def properties(directory: Path) -> dict[str, str]:
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


# Directories of other programs


def test_a_directory_that_holds_something_else_is_not_formatted_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "photos-2024").mkdir()
    (tmp_path / "photos-2024" / "a.jpg").write_text("x")
    (tmp_path / "notes.txt").write_text("y")

    async def main() -> None:
        told = await refusal(tmp_path)
        assert f"{tmp_path} is not empty" in told
        assert "holds notes.txt, photos-2024" in told
        assert f"such as {tmp_path}/cordwood" in told
        assert names(tmp_path) == ["notes.txt", "photos-2024", "photos-2024/a.jpg"]
        # As it says.
        async with started(tmp_path / "cordwood") as node:
            await node.create("t")

    run(main())


def test_hidden_files_and_file_system_entries_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / ".DS_Store").touch()
    run(fill(tmp_path))
    run(check_served(tmp_path))
    assert {".DS_Store", ".snapshot", "lost+found"} < set(names(tmp_path))


def test_a_format_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    run(fill(tmp_path / "whole"))
    half = tmp_path / "half"
    (half / "__cluster_metadata-0").mkdir(parents=True)
    for name in ("bootstrap.checkpoint", f"__cluster_metadata-0/{0:020d}-{0:010d}.checkpoint"):
        (half / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    (half / "meta.properties.tmp").write_text("node.id=1\n")
    run(fill(half))
    run(check_served(half))


def test_nothing_is_formatted_while_the_port_is_taken(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            with pytest.raises(CannotListen):
                async with started(tmp_path / "data", port=other.getsockname()[1]):
                    pass
        assert names(tmp_path / "data") == [".lock"]
        async with started(tmp_path / "data"):
            pass

    run(main())


# Missing or damaged properties


@pytest.mark.parametrize("count", [1, 2])
def test_the_advised_repair_of_missing_properties_works(tmp_path: Path, count: int) -> None:
    directories = [tmp_path / f"with a blank {number}" for number in range(count)]
    run(fill(*directories))
    before = properties(directories[-1])
    (directories[-1] / "meta.properties").unlink()
    files = names(tmp_path)
    told = run(refusal(*directories))
    assert f"{directories[-1]} holds data, and its meta.properties" in told
    assert names(tmp_path) == files
    (command,) = re.findall(r"^  (printf .*)$", told, re.MULTILINE)
    subprocess.run(["sh", "-c", command], check=True)
    after = properties(directories[-1])
    if count == 1:
        assert "this cluster.id is a new one" in told
        del before["cluster.id"], after["cluster.id"]
    assert after == before
    run(check_served(*directories))


def test_a_directory_without_an_id_gets_the_one_that_the_metadata_has_for_it(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(fill(one, two))
    old = properties(two)
    (two / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={old['cluster.id']}\n")
    run(check_served(one, two))
    assert properties(two) == old


def test_a_directory_of_kafka_3_6_is_taken_over_and_gets_an_id_that_it_keeps(tmp_path: Path) -> None:
    """Its metadata knows nothing of directories, nor of controllers; Kafka would not read it any more if it did."""
    disk = LocalDisk(str(tmp_path))
    voter = first_voter(1, bytes(16), {})
    format_directory(disk, VoterSet([voter]), now_ms=1, levels={METADATA_VERSION: 14})
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\n")
    run(fill(tmp_path))
    taken_over = properties(tmp_path)
    assert len(taken_over["directory.id"]) == 22
    assert taken_over["cluster.id"] == "5L6g3nShT-eMCtK--X86sw"
    run(check_served(tmp_path))
    assert properties(tmp_path) == taken_over
    image = read_image(disk)
    assert image.metadata_version == 14
    assert not image.controllers
    assert not image.brokers[1].log_dirs


def test_a_zookeeper_directory_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=3\ncluster.id=Abc\n")
    told = run(refusal(tmp_path))
    assert "is of a broker that used ZooKeeper (version=0, broker.id=3)" in told
    assert "migrate the cluster with Kafka 3.9 first" in told


@pytest.mark.parametrize(
    "content", ["", "version=1\nnode.id=1\n", "version=1\ncluster.id=x\n", "version=7\nnode.id=1\n"]
)
def test_damaged_properties_are_refused_with_advice(tmp_path: Path, content: str) -> None:
    run(fill(tmp_path))
    (tmp_path / "meta.properties").write_text(content)
    told = run(refusal(tmp_path))
    assert "expected version=1, a cluster.id and a node.id" in told
    assert "Restore the file from a backup, or rename it" in told


def test_an_invalid_directory_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\ndirectory.id=short\n")
    assert "directory.id=short is not an id" in run(refusal(tmp_path))
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=x\ndirectory.id={'A' * 22}\n")
    assert "is reserved: remove the line" in run(refusal(tmp_path))


# Directories that do not belong together


def test_a_copy_of_a_directory_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(fill(one, two))
    (two / "meta.properties").write_bytes((one / "meta.properties").read_bytes())
    assert "is also the id of" in run(refusal(one, two))


def test_the_metadata_log_is_looked_up_where_it_was(tmp_path: Path) -> None:
    """With the directories in another order the metadata would be another one."""
    one, two = tmp_path / "one", tmp_path / "two"
    run(fill(one, two))
    before = names(tmp_path)
    assert f"the metadata log is in {one}/__cluster_metadata-0, and should be in {two}" in run(refusal(two, one))
    assert f"{two}/__cluster_metadata-0 is missing or empty" in run(refusal(two))
    assert names(tmp_path) == before
    run(check_served(one, two))


def test_a_new_directory_is_added_to_those_of_a_node(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    run(fill(one))
    run(check_served(one, two))
    assert properties(two)["cluster.id"] == properties(one)["cluster.id"]


def test_a_directory_without_the_metadata_log_is_refused_also_if_it_has_no_partition(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def scene() -> None:
        async with started(first, second):
            pass
        with pytest.raises(
            CannotStart, match=r"the metadata log .* is missing or empty.* name that one in metadata\.log\.dir"
        ):
            async with started(second):
                pass

    run(scene())
