"""Groups: heartbeats, many that are idle, and a large one that rebalances."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from bench.coordinators.members import (
    CONSUMER_VERSION,
    HEARTBEAT_VERSION,
    TOPIC,
    ClassicMember,
    Connections,
    ConsumerMember,
    classic_generation,
    until_reconciled,
)
from bench.coordinators.requests import CONNECTIONS, find_coordinator, load, node
from bench.nodes.brokers import Cordwood
from bench.nodes.processes import cpu_s
from bench.nodes.wire_client import CLIENT_ID
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from cordwood.wire.messages.heartbeat import HeartbeatResponse

IDLE_GROUPS = 1_000
IDLE_MEMBERS = 5
IDLE_SECONDS = 30
SETTLING_INTERVALS = 5
# The interval of clients of the classic protocol; with the consumer protocol the broker says it.
CLASSIC_INTERVAL_S = 3.0

LARGE_MEMBERS = 500
LARGE_PARTITIONS = 1_000


def heartbeats() -> None:
    with node({"group.initial.rebalance.delay.ms": "0"}) as broker:
        _prepare(broker, CONNECTIONS)
        frames = asyncio.run(_classic_heartbeats(broker))
        rate, cpu_us = load(broker, frames, _check_heartbeat)
        print(f"Heartbeat: {rate:,.0f}/s (≥ 20,000), {cpu_us:.0f} µs of the broker's processor each")
        frames = asyncio.run(_consumer_heartbeats(broker))
        rate, cpu_us = load(broker, frames, _check_consumer_heartbeat)
        print(f"ConsumerGroupHeartbeat: {rate:,.0f}/s (≥ 20,000), {cpu_us:.0f} µs of the broker's processor each")


def _prepare(broker: Cordwood, partitions: int) -> None:
    with broker.client() as client:
        client.create_topic(TOPIC, partitions)
        find_coordinator(client, "group-0")


async def _classic_heartbeats(broker: Cordwood) -> list[bytes]:
    connections = Connections(broker)
    frames = []
    for number in range(CONNECTIONS):
        member = ClassicMember(await connections.one(), f"classic-{number}")
        await classic_generation([member], CONNECTIONS)
        frames.append(encode_request(member.heartbeat(), HEARTBEAT_VERSION, 1, CLIENT_ID))
    connections.close()
    return frames


def _check_heartbeat(answer: bytes) -> None:
    _, response = decode_response(HeartbeatResponse, HEARTBEAT_VERSION, answer)
    assert response.error_code == 0, response


async def _consumer_heartbeats(broker: Cordwood) -> list[bytes]:
    connections = Connections(broker)
    frames = []
    for number in range(CONNECTIONS):
        member = ConsumerMember(await connections.one(), f"consumer-{number}", f"member-{number}")
        await until_reconciled([member], CONNECTIONS)
        frames.append(encode_request(member.heartbeat(), CONSUMER_VERSION, 1, CLIENT_ID))
    connections.close()
    return frames


def _check_consumer_heartbeat(answer: bytes) -> None:
    _, response = decode_response(ConsumerGroupHeartbeatResponse, CONSUMER_VERSION, answer)
    assert response.error_code == 0, response


def idle_groups() -> None:
    for kind, begin in (("classic", _classic_groups), ("consumer", _consumer_groups)):
        # Each on its own node: members who are gone cost something until their sessions are over.
        with node() as broker:
            _prepare(broker, IDLE_MEMBERS)
            beats_per_s, share = asyncio.run(_idle_share(broker, begin))
        print(
            f"{IDLE_GROUPS:,} {kind} groups of {IDLE_MEMBERS} that do nothing but beat, {beats_per_s:,.0f} times a "
            f"second: {100 * share:.1f} % of one core (≤ 10 %), {share / beats_per_s * 1e6:.0f} µs each"
        )


# All groups at once: each waits for `group.initial.rebalance.delay.ms`, so one after the other they would take an hour.


async def _classic_groups(connections: Connections) -> tuple[list[ClassicMember], float]:
    groups = [
        [ClassicMember(await connections.one(), f"classic-{number}") for _ in range(IDLE_MEMBERS)]
        for number in range(IDLE_GROUPS)
    ]
    await asyncio.gather(*(classic_generation(group, IDLE_MEMBERS) for group in groups))
    return [member for group in groups for member in group], CLASSIC_INTERVAL_S


async def _consumer_groups(connections: Connections) -> tuple[list[ConsumerMember], float]:
    groups = [
        [
            ConsumerMember(await connections.one(), f"consumer-{number}", f"member-{index}")
            for index in range(IDLE_MEMBERS)
        ]
        for number in range(IDLE_GROUPS)
    ]
    await asyncio.gather(*(until_reconciled(group, IDLE_MEMBERS) for group in groups))
    members = [member for group in groups for member in group]
    return members, members[0].heartbeat_interval_ms / 1000


async def _idle_share(broker: Cordwood, begin: Callable[[Connections], object]) -> tuple[float, float]:
    """Heartbeats a second, and the broker's share of a processor."""
    connections = Connections(broker)
    members: Sequence[ClassicMember | ConsumerMember]
    members, interval_s = await begin(connections)  # type: ignore[misc]
    # Members who came one after the other are given their shares over their first heartbeats, and it takes the broker
    # some of them to see that nothing else comes.
    await _beat(members, interval_s, SETTLING_INTERVALS * interval_s)
    began, before = time.perf_counter(), cpu_s(broker.pid)
    await _beat(members, interval_s, IDLE_SECONDS)
    seconds = time.perf_counter() - began
    share = (cpu_s(broker.pid) - before) / seconds
    connections.close()
    return len(members) * IDLE_SECONDS / interval_s / seconds, share


async def _beat(members: Sequence[ClassicMember | ConsumerMember], interval_s: float, seconds: float) -> None:
    """Every member in its turn, evenly over each interval."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def beat_regularly(member: ClassicMember | ConsumerMember, first_s: float) -> None:
        at = began + first_s
        while at < began + seconds:
            await asyncio.sleep(max(0.0, at - loop.time()))
            assert await member.beat() == 0
            at += interval_s

    await asyncio.gather(
        *(beat_regularly(member, interval_s * number / len(members)) for number, member in enumerate(members))
    )


def rebalance() -> None:
    with node({"group.initial.rebalance.delay.ms": "3000", "group.consumer.max.size": "1000"}) as broker:
        _prepare(broker, LARGE_PARTITIONS)
        asyncio.run(_rebalance_classic(broker))
        asyncio.run(_rebalance_consumer(broker))


async def _rebalance_classic(broker: Cordwood) -> None:
    connections = Connections(broker)
    members = [ClassicMember(await connections.one(), "large") for _ in range(LARGE_MEMBERS)]
    for what in ("joins", "rebalances"):
        before, began = cpu_s(broker.pid), time.perf_counter()
        await classic_generation(members, LARGE_PARTITIONS)
        _show("classic", what, cpu_s(broker.pid) - before, time.perf_counter() - began)
    connections.close()


async def _rebalance_consumer(broker: Cordwood) -> None:
    connections = Connections(broker)
    members = [
        ConsumerMember(await connections.one(), "large-consumer", f"member-{number}") for number in range(LARGE_MEMBERS)
    ]
    newcomer = ConsumerMember(await connections.one(), "large-consumer", "newcomer")
    for what, present in (("joins", members), ("rebalances for one more", [*members, newcomer])):
        before, began = cpu_s(broker.pid), time.perf_counter()
        rounds = await until_reconciled(present, LARGE_PARTITIONS)
        seconds = time.perf_counter() - began
        _show("consumer", f"{what} in {rounds} rounds of heartbeats", cpu_s(broker.pid) - before, seconds)
    connections.close()


def _show(kind: str, what: str, cpu: float, seconds: float) -> None:
    print(
        f"{kind} group of {LARGE_MEMBERS} on {LARGE_PARTITIONS:,} partitions {what}: "
        f"{cpu:.2f} s of the broker's processor (≤ 3 s), {seconds:.1f} s in all"
    )
