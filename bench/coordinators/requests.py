"""Small requests to a group coordinator, from raw connections that keep many of them in progress."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.nodes.brokers import Cordwood
from bench.nodes.processes import cpu_s
from bench.nodes.wire_client import CLIENT_ID, WireClient, connect
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

CONNECTIONS = 8
# Per connection.
IN_FLIGHT = 32
REQUESTS = 100_000
COMMIT_VERSION = 9


def commits() -> None:
    with node() as broker, broker.client() as client:
        client.create_topic("orders", 8)
        find_coordinator(client, "group-0")
        frames = [
            encode_request(offset_commit(f"group-{number}", number), COMMIT_VERSION, 1, CLIENT_ID)
            for number in range(CONNECTIONS)
        ]
        rate, cpu_us = load(broker, frames, _check_commit)
    print(f"OffsetCommit of one partition: {rate:,.0f}/s (≥ 10,000), {cpu_us:.0f} µs of the broker's processor each")


def offset_commit(group_id: str, partition: int) -> OffsetCommitRequest:
    committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1_000, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name="orders", partitions=[committed])]
    )


def _check_commit(answer: bytes) -> None:
    _, response = decode_response(OffsetCommitResponse, COMMIT_VERSION, answer)
    assert response.topics[0].partitions[0].error_code == 0, response


@contextmanager
def node(settings: dict[str, str] | None = None) -> Iterator[Cordwood]:
    folder = Path(tempfile.mkdtemp(prefix="cordwood-bench-"))
    broker = Cordwood(folder, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder)


def find_coordinator(client: WireClient, group_id: str) -> None:
    """Also creates the coordinator's topic."""
    response = client.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 4)
    assert response.coordinators[0].error_code == 0, response


def load(broker: Cordwood, frames: Sequence[bytes], check: Callable[[bytes], None]) -> tuple[float, float]:
    """Sends each frame again and again on its own connection: requests a second, and µs of processor each.

    All answers have to be as long as the first one, which is checked.
    """
    connections = [connect(broker.address) for _ in frames]
    sizes = []
    for connection, frame in zip(connections, frames, strict=True):
        connection.sendall(frame)
        answer = connection.recv(1 << 16)
        check(answer[4:])
        sizes.append(len(answer))
    bursts = [frame * IN_FLIGHT for frame in frames]
    rounds = REQUESTS // (len(frames) * IN_FLIGHT)
    cpu_before, began = cpu_s(broker.pid), time.perf_counter()
    # One burst is always in flight while the answers to the one before are read.
    for connection, burst in zip(connections, bursts, strict=True):
        connection.sendall(burst)
    for number in range(rounds):
        for connection, burst, size in zip(connections, bursts, sizes, strict=True):
            left = size * IN_FLIGHT
            while left:
                left -= len(connection.recv(left))
            if number + 1 < rounds:
                connection.sendall(burst)
    requests = rounds * len(frames) * IN_FLIGHT
    figures = requests / (time.perf_counter() - began), (cpu_s(broker.pid) - cpu_before) / requests * 1e6
    for connection in connections:
        connection.close()
    return figures
