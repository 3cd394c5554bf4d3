"""End-to-end latency, open loop, with librdkafka on both sides: from when a record is due to when its consumer has it.

The consumer is a separate process, and the clock is the machine's: `python -m bench.nodes.latency` is that consumer.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

WARM_UP_S = 2
VALUE_BYTES = 100
PATIENCE_S = 30
_DUE = struct.Struct(">q")
_NOT_COUNTED = 0


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float
    p999_ms: float


def measure(bootstrap: str, topic: str, rate: int, seconds: int, linger_ms: int) -> Latency:
    """Sends `rate` records a second, each due at its own time, to a topic of one partition with acks=1."""
    counted = rate * seconds
    command = [sys.executable, "-m", "bench.nodes.latency", bootstrap, topic, str(counted)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout
        consumer.stdout.readline()
        _send(bootstrap, topic, rate, seconds, linger_ms)
        latencies = sorted(json.loads(consumer.stdout.readline()))
    if len(latencies) != counted:
        raise RuntimeError(f"{counted} records were sent, {len(latencies)} arrived")
    return Latency(*(latencies[int(share * (counted - 1))] for share in (0.5, 0.99, 0.999)))


def _send(bootstrap: str, topic: str, rate: int, seconds: int, linger_ms: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "acks": 1, "queue.buffering.max.messages": 1_000_000}
    )
    padding = bytes(VALUE_BYTES - _DUE.size)
    warm_up = rate * WARM_UP_S
    start_ns = time.monotonic_ns()
    for number in range(warm_up + rate * seconds):
        due_ns = start_ns + number * 1_000_000_000 // rate
        if (wait_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(wait_ns / 1e9)
        mark = _NOT_COUNTED if number < warm_up else due_ns
        producer.produce(topic, _DUE.pack(mark) + padding, partition=0)
        if number % 16 == 0:
            producer.poll(0)
    producer.flush(PATIENCE_S)


def receive(bootstrap: str, topic: str, counted: int) -> None:
    """Says when it reads, then all latencies in milliseconds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    consumer.poll(1)
    print("reading", flush=True)
    latencies: list[float] = []
    while len(latencies) < counted and (message := consumer.poll(PATIENCE_S)):
        now_ns = time.monotonic_ns()
        value = message.value()
        if message.error() or value is None:
            raise RuntimeError(str(message.error()))
        if (due_ns := _DUE.unpack_from(value)[0]) != _NOT_COUNTED:
            latencies.append((now_ns - due_ns) / 1e6)
    print(json.dumps(latencies), flush=True)
    # Not closed: there is no group to leave, and a broker without groups would make it wait.
    os._exit(0)


if __name__ == "__main__":
    receive(sys.argv[1], sys.argv[2], int(sys.argv[3]))
