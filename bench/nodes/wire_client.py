"""A blocking connection that speaks the protocol, for a benchmark's requests to a broker."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import cast

from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.schema import Request, ResponseT

CLIENT_ID = "bench"
TOPIC_ALREADY_EXISTS = 36
TIMEOUT_S = 120

# Versions that Kafka 4 and its clients of recent years share.
CREATE_TOPICS_VERSION = 7
DELETE_TOPICS_VERSION = 6
METADATA_VERSION = 12
INIT_PRODUCER_ID_VERSION = 4
LIST_OFFSETS_VERSION = 7

LATEST = -1


class WireClient:
    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = connect(address)

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        self.socket.sendall(encode_request(request, version, 1, CLIENT_ID))
        answer = cast("type[ResponseT]", type(request).response)
        return decode_response(answer, version, self.receive())[1]

    def receive(self) -> bytes:
        """One frame without its size."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise ConnectionError("the broker closed the connection")
            data += received
        return bytes(data)

    # ---- what benchmarks ask

    def create_topics(self, names: list[str], partitions: int, configs: dict[str, str] | None = None) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
            for name in names
        ]
        response = self.ask(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_S * 1000), CREATE_TOPICS_VERSION)
        for topic in response.topics:
            if topic.error_code not in (0, TOPIC_ALREADY_EXISTS):
                raise RuntimeError(f"topic {topic.name}: error {topic.error_code}: {topic.error_message}")

    def create_topic(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> None:
        """And waits until every partition has a leader that serves it: Kafka answers a moment before that."""
        self.create_topics([name], partitions, configs)
        self.wait_until_led(partitions, [name])
        _wait(lambda: self._serving(name, partitions), f"{name} is not served")

    def delete_topic(self, name: str) -> None:
        self.ask(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_S * 1000),
            DELETE_TOPICS_VERSION,
        )

    def wait_until_led(self, partitions: int, names: list[str] | None = None) -> None:
        """Until `partitions` partitions of these topics, or of all, have a leader."""
        _wait(lambda: self.led(names) >= partitions, f"not all of {partitions} partitions have a leader")

    def led(self, names: list[str] | None) -> int:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response = self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), METADATA_VERSION)
        return sum(
            partition.leader_id >= 0
            for topic in response.topics
            if not topic.is_internal
            for partition in topic.partitions
        )

    def _serving(self, name: str, partitions: int) -> bool:
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)])
        response = self.ask(request, LIST_OFFSETS_VERSION)
        return all(partition.error_code == 0 for partition in response.topics[0].partitions)

    def brokers(self) -> int:
        return len(self.ask(MetadataRequest(topics=[]), METADATA_VERSION).brokers)

    def new_producer(self) -> tuple[int, int]:
        """A producer id and epoch, for idempotent batches."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        responses: list[InitProducerIdResponse] = []

        def given() -> bool:
            """A broker that has just started may still be loading what it needs."""
            responses[:] = [self.ask(request, INIT_PRODUCER_ID_VERSION)]
            return responses[0].error_code == 0

        _wait(given, "no producer id")
        return responses[0].producer_id, responses[0].producer_epoch


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} after {TIMEOUT_S} s")
        time.sleep(0.002)


def connect(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address, TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
