"""Codec time of a broker's most frequent requests."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from timeit import Timer

from cordwood.wire.frames import decode_request, encode_request, encode_response, encode_response_parts
from cordwood.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from cordwood.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ROUNDS = 15
CALLS = 5_000
TOPIC_ID = bytes(range(16))


class FileRange:
    """Stands for bytes on disk, as the broker's own range does."""

    def __len__(self) -> int:
        return 1 << 20


def main() -> None:
    for version in (9, 12):
        frame = encode_request(produce_request(), version, 7, "bench")[4:]
        show(f"decode Produce request v{version}", partial(decode_request, frame), 8)
    for version in (9, 12):
        show(f"encode Produce response v{version}", partial(encode_response, produce_response(), version, 7), 6)
    for version in (12, 17):
        frame = encode_request(fetch_request(), version, 7, "bench")[4:]
        show(f"decode Fetch request v{version}", partial(decode_request, frame), 10)
    for version in (12, 17):
        show(f"encode Fetch response v{version}", partial(encode_response_parts, fetch_response(), version, 7), 10)
    show("encode Metadata response v12, 100 partitions", partial(encode_response, metadata_response(), 12, 7), None)
    show_import_time()


def show(name: str, work: Callable[[], object], target_us: float | None) -> None:
    """Best of several rounds: other work on the machine only ever adds to it."""
    work()
    gc.disable()
    best = min(Timer(work).repeat(ROUNDS, CALLS)) / CALLS * 1e6
    gc.enable()
    target = f"(≤ {target_us} µs)" if target_us is not None else ""
    print(f"{name:<48} {best:8.2f} µs  {target}".rstrip())


def show_import_time() -> None:
    """The cost of one API's module once the package is there, in a fresh interpreter."""
    code = (
        "import cordwood.wire.frames; from time import perf_counter as now; t = now(); "
        "import cordwood.wire.messages.fetch; print(now() - t)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(5)]
    print(f"{'import wire.messages.fetch':<48} {min(times) * 1e6:8.0f} µs")


def produce_request() -> ProduceRequest:
    batch = bytes(range(256)) * 4
    partition = PartitionProduceData(index=3, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", partition_data=[partition])]
    )


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=3, base_offset=123_456, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[partition])])


def fetch_request() -> FetchRequest:
    partition = FetchPartition(
        partition=3, current_leader_epoch=5, fetch_offset=123_456, log_start_offset=-1, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_epoch=0,
        topics=[FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=[partition])],
    )


def fetch_response() -> FetchResponse:
    partition = PartitionData(
        partition_index=3,
        high_watermark=123_456,
        last_stable_offset=123_456,
        log_start_offset=0,
        aborted_transactions=None,
        records=FileRange(),
    )
    return FetchResponse(
        session_id=42,
        responses=[FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=[partition])],
    )


def metadata_response() -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=i, leader_id=i % 3, leader_epoch=1, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for i in range(100)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=i, host=f"broker-{i}", port=9092) for i in range(3)],
        cluster_id="cluster",
        topics=[MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)],
    )


if __name__ == "__main__":
    main()
