"""Memory of a producer whose broker does not respond: `buffer_memory` and a constant."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench.nodes.brokers import Cordwood
from bench.nodes.processes import rss_mb

SIZES_MIB = (8, 32, 128)
VALUE_BYTES = (100, 1_000)
TOPIC = "stalled"


def main(folder: Path) -> None:
    print("\nmemory of a producer whose broker is stalled, and that goes on sending until it is refused")
    broker = Cordwood(folder / "stalled")
    broker.start()
    try:
        with broker.client() as client:
            client.create_topic(TOPIC, 1)
        for value_bytes in VALUE_BYTES:
            for size_mib in SIZES_MIB:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    grown, sent = pool.submit(fill, broker.bootstrap, broker.pid, size_mib << 20, value_bytes).result()
                print(
                    f"  buffer_memory {size_mib:4} MiB, records of {value_bytes:5} B: {grown:6.1f} MiB more "
                    f"after {sent:,} records ({grown - size_mib:+.1f} beyond it)",
                    flush=True,
                )
    finally:
        broker.stop()


def fill(bootstrap: str, broker_pid: int, buffer_memory: int, value_bytes: int) -> tuple[float, int]:
    """Growth of this process in MiB, and the number of records it accepted."""
    from cordwood import BufferExhausted, Producer

    value = b"v" * value_bytes
    with Producer(bootstrap_servers=bootstrap, buffer_memory=buffer_memory, max_block_ms=2_000) as producer:
        producer.send_and_wait(TOPIC, value)
        before = rss_mb(os.getpid())
        os.kill(broker_pid, signal.SIGSTOP)
        sent = 0
        try:
            while True:
                producer.send(TOPIC, value)
                sent += 1
        except BufferExhausted:
            grown = (rss_mb(os.getpid()) - before) * 1e6 / 2**20
        finally:
            os.kill(broker_pid, signal.SIGCONT)
        producer.flush()
    return grown, sent
