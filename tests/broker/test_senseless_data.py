"""Requests without sense, but well formed, to the data APIs: each is answered, nothing breaks, logs stay whole."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.wire.batch_header import batch_headers, check_crc
from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.messages import message_class
from cordwood.wire.messages.fetch import FetchResponse
from cordwood.wire.schema import Kind
from data_answers.batches import batch
from tests.broker.simulated import SimulatedNode, simulate

APIS = (
    "DeleteRecords",
    "DescribeProducers",
    "Fetch",
    "Fetch",
    "Fetch",
    "InitProducerId",
    "ListOffsets",
    "OffsetForLeaderEpoch",
    "Produce",
    "Produce",
)
TEXTS = ("t", "t", "t", "u", "none", "", ".", "a b", "x" * 300, "\x00", "__cluster_metadata")
SMALL = (-128, -3, -2, -1, 0, 1, 2, 3, 127)
NUMBERS = (*SMALL, -(2**31), 1000, 2**31 - 1)
LARGE = (*NUMBERS, -(2**63), 1_700_000_000_000, 2**63 - 1)


@pytest.mark.parametrize("seed", range(8))
def test_senseless_requests_are_answered(seed: int) -> None:
    async def test(node: SimulatedNode) -> None:
        senseless = Senseless(Random(seed), [await node.create("t", 3), await node.create("u", 1)])
        channel = await node.connect()
        for _ in range(400):
            await senseless.ask(channel)
        channel.close()
        counts = node.node.server.counts
        assert (counts.handler_failures, counts.bad_requests) == (0, 0)
        for partition in node.broker.replicas:
            log = partition.log
            assert log is not None
            data = log.active.file.read(0, log.active.size)
            headers = list(batch_headers(data))
            for position, header in headers:
                check_crc(data, header, position)
            assert log.end_offset == sum(header.count for _, header in headers)
            assert log.start_offset <= log.high_watermark <= log.end_offset

    simulate(test)


class Senseless:
    """The requests; of the responses only sessions are kept, to be used and abused."""

    def __init__(self, random: Random, topic_ids: list[bytes]) -> None:
        self._random = random
        self._ids = [*topic_ids, bytes(16), bytes(range(16))]
        self._sessions = [0, 12345]

    async def ask(self, channel: Channel) -> None:
        api = self._random.choice(APIS)
        request: Any = message_class(f"{api}Request")
        version = self._random.choice(list(request.stable_versions))
        response = await channel.request(self._struct(message_layout(request, version)), version)
        if isinstance(response, FetchResponse) and response.session_id:
            self._sessions = [*self._sessions[-5:], response.session_id]

    def _struct(self, layout: Layout) -> Any:
        return layout.struct(**{field.name: self._field(field) for field in layout.fields})

    def _field(self, field: WireField) -> Any:
        choose = self._random.choice
        match field.name:
            case "acks":
                # Without acknowledgements there is no answer.
                return choose([-2, -1, -1, -1, 1, 1, 2])
            case "max_wait_ms" | "timeout_ms":
                return choose([-1, 0, 1, 100])
            case "session_id":
                return choose(self._sessions)
            case "session_epoch":
                return choose([-2, -1, 0, 0, 1, 1, 2, 3])
            case "replica_id":
                return choose([-1, -1, -1, *SMALL])
            case "partition" | "partition_index" | "index":
                return choose([0, 0, 1, 2, *SMALL])
        if field.nullable and self._random.random() < 0.1:
            return None
        if field.kind == "array":
            return [self._element(field.element) for _ in range(choose([0, 1, 1, 2, 5]))]
        return self._element(field.element or field.field.kind)

    def _element(self, element: Layout | Kind | None) -> Any:
        if isinstance(element, Layout):
            return self._struct(element)
        assert element is not None
        choose = self._random.choice
        match element.name:
            case "bool":
                return choose([True, False])
            case "string":
                return choose(TEXTS)
            case "uuid":
                return choose(self._ids)
            case "records":
                return self._records()
            case "int8":
                return choose(SMALL)
            case "int16":
                return choose((*SMALL, -32768, 32767))
            case "int32":
                return choose(NUMBERS)
            case _:
                return choose(LARGE)

    def _records(self) -> bytes:
        """A batch, mostly; sometimes with a byte changed, or cut short, or two of them, or none."""
        random = self._random
        data = batch(
            *["v"] * random.choice([1, 1, 2, 10]),
            producer_id=random.choice([-1, -1, 0, 5]),
            epoch=random.choice([-1, 0, 0, 1]),
            sequence=random.choice([-1, 0, 0, 1, 2]),
            transactional=random.random() < 0.1,
            control=random.random() < 0.1,
        )
        match random.randrange(8):
            case 0:
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            case 1:
                del data[random.randrange(len(data)) :]
            case 2:
                data = data + data
        return bytes(data)
