"""Consumers that follow producers, in virtual time: every record once, in order, and no wake is lost.

The consumers would wait for days; that all of them are through within seconds shows that each was woken.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.batch_header import batch_headers, whole_batches_length
from cordwood.wire.records import decode_batch
from data_answers.batches import batch
from data_answers.requests import Place, fetch, produce
from tests.broker.in_process import InProcessNode

VERSION = 12
PARTITIONS = 4
RECORDS = 60
DAYS_MS = 2**31 - 1
# In virtual time. A slow network may take a second for a piece here and there, a slow thread half of one.
LIMIT_S = 600.0


@pytest.mark.parametrize("seed", range(12))
def test_following_a_topic_returns_every_record_once_in_order(seed: int) -> None:
    draw = random.Random(seed)
    flush_messages = draw.choice(["1", "1", "3", "10", "1000000"])
    segment_bytes = draw.choice(["300", "1000", "1000000"])
    world = World(seed, odds=NetworkOdds(), limit_s=LIMIT_S, pauses=True)
    machine = Machine(world, "broker", {})

    async def main() -> None:
        assert await machine.start()
        assert machine.node is not None
        node = InProcessNode(machine.node, world.network.host("client"))
        await node.create("t", PARTITIONS, {"flush.messages": flush_messages, "internal.segment.bytes": segment_bytes})
        consumers = [
            asyncio.create_task(_follow(await node.connect(), random.Random(f"{seed}/{number}"), number % 2 == 0))
            for number in range(4)
        ]
        producers = [
            _write(await node.connect(), partition, random.Random(f"{seed}/p{partition}"))
            for partition in range(PARTITIONS)
        ]
        await asyncio.gather(*producers)
        for consumer in consumers:
            assert await consumer == {partition: list(range(RECORDS)) for partition in range(PARTITIONS)}

    world.run(main())


async def _write(channel: Channel, partition: int, draw: random.Random) -> None:
    written = 0
    while written < RECORDS:
        count = min(draw.randint(1, 4), RECORDS - written)
        values = [str(number) for number in range(written, written + count)]
        response = await channel.request(produce("t", batch(*values), partition=partition), VERSION)
        assert response.responses[0].partition_responses[0].base_offset == written
        written += count
        await asyncio.sleep(draw.choice([0, 0, 0.001, 0.05]))


async def _follow(channel: Channel, draw: random.Random, has_session: bool) -> dict[int, list[int]]:
    """The records seen of each partition, once all were seen."""
    seen: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    session, epoch = 0, 0 if has_session else -1
    told: dict[Place, int] = {}
    while any(len(values) < RECORDS for values in seen.values()):
        offsets: dict[Place, int] = {("t", partition): len(values) for partition, values in seen.items()}
        changed = {place: offset for place, offset in offsets.items() if told.get(place) != offset}
        left = sum(RECORDS - len(values) for values in seen.values())
        request = fetch(
            changed if session else offsets,
            session=(session, epoch),
            max_wait_ms=DAYS_MS,
            # No more than there will be: a record has 7 bytes and more.
            min_bytes=draw.choice([1, 1, min(left, 10) * 7]),
            max_bytes=draw.choice([1, 200, 1 << 20]),
        )
        response = await channel.request(request, VERSION, timeout_s=LIMIT_S)
        assert not response.error_code
        if has_session:
            session, epoch, told = response.session_id, epoch + 1, offsets
        for topic in response.responses:
            for answer in topic.partitions:
                assert not answer.error_code
                values = seen[answer.partition_index]
                data = answer.records
                assert isinstance(data, bytes | bytearray | memoryview)
                for position, _ in batch_headers(data[: whole_batches_length(data)]):
                    for record in decode_batch(data, position):
                        if record.offset >= len(values):
                            assert record.offset == len(values) < answer.high_watermark
                            values.append(int(record.value or b""))
    channel.close()
    return seen
