"""Rows about the disk: fetching from a large log, and acknowledgements that wait for it."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import tempfile
import time
from pathlib import Path
from random import Random

from bench.nodes import replay
from bench.nodes.brokers import Broker
from bench.nodes.processes import cpu_s
from bench.nodes.replay import Load
from bench.nodes.table import Bench, Measure, Row
from bench.nodes.wire_client import connect

LOG_BATCH_RECORDS = 15
LOG_VALUE_BYTES = 1_000
FETCHES = 1_000
FETCH_BYTES = 64 << 10
FETCH_ROUNDS = 5
PRODUCERS = 64
FSYNC_S = 3.0


def fetch_positions(bench: Bench, broker: Broker) -> tuple[float, ...]:
    """The broker's cost of a fetch at offsets near the first, in the middle and near the last, by turns."""
    load = Load(bench.topic("large"), 1, 0, LOG_BATCH_RECORDS, LOG_VALUE_BYTES)
    load.requests = bench.log_bytes // len(replay.batch_of(load))
    source = Random(1)
    near = load.records // 100
    starts = (0, load.records // 2, load.records - near)
    spent = [0.0, 0.0, 0.0]
    with broker.client() as client:
        client.create_topic(load.topic, 1)
        replay.produce(broker.address, load, 16)
        with connect(broker.address) as connection:
            for _ in range(FETCH_ROUNDS):
                for place, start in enumerate(starts):
                    offsets = [start + source.randrange(near) for _ in range(FETCHES)]
                    requests = [replay.fetch_request(load.topic, 0, offset, FETCH_BYTES) for offset in offsets]
                    before = cpu_s(broker.pid)
                    replay.fetch_all(connection, requests, 4)
                    spent[place] += cpu_s(broker.pid) - before
        client.delete_topic(load.topic)
    each = [seconds / (FETCHES * FETCH_ROUNDS) * 1e6 for seconds in spent]
    return *each, max(each) / min(each)


def group_commit(bench: Bench, broker: Broker) -> tuple[float, ...]:
    """Requests a second with flush.messages=1: of 64 producers, of one; and what one fsync for each would allow."""
    topic = bench.topic("flushed")
    with broker.client() as client:
        client.create_topic(topic, 1, {"flush.messages": "1"})
    before = cpu_s(broker.pid)
    many, answered = lockstep(broker.address, topic, PRODUCERS)
    spent = cpu_s(broker.pid) - before
    one, _ = lockstep(broker.address, topic, 1)
    fsyncs = fsyncs_per_s(broker.folder)
    with broker.client() as client:
        client.delete_topic(topic)
    return many, one, fsyncs, spent / answered * 1e6, many / one, many / fsyncs


def lockstep(address: tuple[str, int], topic: str, producers: int) -> tuple[float, int]:
    """Requests a second, and how many, of so many connections that each wait for the answer before they send again."""
    request = replay.produce_request(topic, 0, replay.batch_of(Load(topic, 1, 1, 1, 100)), -1)
    selector = selectors.DefaultSelector()
    connections = [connect(address) for _ in range(producers)]
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ)
        connection.sendall(request)
    responses: list[bytes] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < FSYNC_S:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            responses.append(key.fileobj.recv(4096))
            key.fileobj.send(request)
    elapsed_s = time.perf_counter() - begun
    for connection in connections:
        connection.close()
    for response in responses:
        replay.check_produced(response[4:])
    return len(responses) / elapsed_s, len(responses)


def fsyncs_per_s(folder: Path) -> float:
    """Measures a file that grows by a record each time, on the broker's file system."""
    with tempfile.TemporaryFile(dir=folder if folder.is_dir() else None) as file:
        count = 0
        begun = time.perf_counter()
        while time.perf_counter() - begun < FSYNC_S:
            os.write(file.fileno(), struct.pack(">q", count) * 20)
            os.fsync(file.fileno())
            count += 1
        return count / (time.perf_counter() - begun)


ROWS = (
    Row(
        "positions",
        "fetch of 64 KiB from a large log",
        (
            Measure("CPU, first offsets", "µs"),
            Measure("CPU, middle", "µs"),
            Measure("CPU, last", "µs"),
            Measure("dearest / cheapest", "", limit=1.5),
        ),
        fetch_positions,
        rounds=1,
    ),
    Row(
        "group-commit",
        "flush.messages=1",
        (
            Measure("64 producers", "/s", higher_is_better=True),
            Measure("1 producer", "/s", higher_is_better=True),
            Measure("fsyncs of a file", "/s", higher_is_better=True),
            Measure("broker CPU, 64 producers", "µs each"),
            Measure("64 / 1 producer", "", higher_is_better=True, limit=10),
            Measure("64 / fsyncs of a file", "", higher_is_better=True),
        ),
        group_commit,
        rounds=2,
    ),
)
