"""Transcripts: a script of requests and times, and everything that came of it, as text.

    # A member who joins alone leads its group.
    > settings group.initial.rebalance.delay.ms=100
    > topic orders 3
    > a JoinGroup v9 group_id=g protocol_type=consumer session_timeout_ms=10000 protocols=[{name: range, metadata: x}]
    a < error_code=MEMBER_ID_REQUIRED member_id=$a

Lines that begin with `>` are done, one after the other, on a node in virtual time; the lines below one are what
happened: records that coordinators wrote (`*`), transactions that ended in a partition (`=`), responses (`client <`).
Effects more than a moment after their command show the delay. Commands:

    > settings key=value …          before anything else
    > topic NAME PARTITIONS
    > CLIENT API vN field=value …   see `notation`; each client has its own connection
    > wait SECONDS
    > grow NAME PARTITIONS | > delete NAME
    > disconnect CLIENT
    > restart | > kill | > power-loss

To write down what happens now, after having thought about it: CORDWOOD_REWRITE_TRANSCRIPTS=1 pytest …
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import NetworkError
from cordwood.sim.machine import Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.frames import decode_coordinator_key, decode_coordinator_value
from cordwood.wire.messages import index, request_class
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest
from cordwood.wire.record import Record
from cordwood.wire.records import decode_batch
from cordwood.wire.schema import Request, Struct
from tests.coordinator.notation import build, parse_fields, show

_ODDS = NetworkOdds(delay_s=0.0001, slow=0.0, split=0.0)
_MOMENT_S = 0.05
_LIMIT_S = 10_000_000.0
_COORDINATORS = {"__consumer_offsets": "group", "__transaction_state": "transaction"}
# One shard each is enough, and quick to make.
_SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_KEYS = {name: key for key, name in index.APIS.items()}
# Times of the wall clock, and what says nothing.
_HIDDEN = frozenset(
    {
        "throttle_time_ms",
        "current_state_timestamp",
        "commit_timestamp",
        "transaction_start_timestamp_ms",
        "transaction_last_update_timestamp_ms",
        "transaction_start_time_ms",
    }
)


# Random ids, and what follows from them or from how long the node took to start.
_ARBITRARY = re.compile(
    r"(?<=timestamp=)\d+|(?<= version=)\d+|(?<=metadata_hash=)-?\d+|(?<=fenced by member )[\w-]+"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)


def check(path: Path) -> None:
    """Runs a transcript and compares; or rewrites it."""
    expected = path.read_text()
    happened = _run(expected)
    if os.environ.get("CORDWOOD_REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == expected


def _run(text: str) -> str:
    """The transcript as it should read: its commands and comments, with what came of each command."""
    lines = [line for line in text.splitlines() if not line or line.startswith((">", "#"))]
    settings = dict(_SETTINGS)
    for line in lines:
        if line.startswith("> settings "):
            settings.update(dict(pair.split("=", 1) for pair in line.split()[2:]))
    world = World(1, odds=_ODDS, limit_s=_LIMIT_S)
    output: list[str] = []

    async def main() -> None:
        stage = _Stage(world, Machine(world, "broker", settings))
        await stage.start()
        for line in lines:
            output.append(line)
            if line.startswith(">") and not line.startswith("> settings "):
                output.extend(await stage.do(line[1:].strip()))

    world.run(main())
    return _ARBITRARY.sub("…", "\n".join(output)) + "\n"


class _Stage:
    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._machine = machine
        self._channels: dict[str, Channel] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._happened: list[tuple[float, str]] = []
        self._began = 0.0
        # The values of `$…`.
        self._names: dict[str, Any] = {}
        # Up to where each partition has been shown.
        # By topic id and partition.
        self._shown_to: dict[tuple[bytes, int], int] = {}

    @property
    def _broker(self) -> Any:
        assert self._machine.node is not None
        return self._machine.node.broker

    async def start(self) -> None:
        assert await self._machine.start()

    async def do(self, command: str) -> list[str]:
        self._began = self._world.loop.time()
        word, _, rest = command.partition(" ")
        match word:
            case "topic":
                name, partitions = rest.split()
                await self._create(name, int(partitions))
            case "grow":
                name, partitions = rest.split()
                topics = [CreatePartitionsTopic(name=name, count=int(partitions), assignments=None)]
                await self._administer(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), 3)
            case "delete":
                await self._administer(DeleteTopicsRequest(topic_names=[rest], timeout_ms=10_000), 5)
            case "wait":
                await asyncio.sleep(float(rest))
            case "disconnect":
                self._channels.pop(rest).close()
            case "restart":
                await self._machine.stop()
                await self._again()
            case "kill":
                self._machine.kill()
                await self._again()
            case "power-loss":
                self._machine.lose_power()
                await self._again()
            case _:
                await self._ask(word, rest)
        await asyncio.sleep(_MOMENT_S)
        self._look_at_logs()
        return [text for _, text in self._take()]

    def _take(self) -> list[tuple[float, str]]:
        taken, self._happened = sorted(self._happened, key=lambda event: round(event[0], 1)), []
        return taken

    def _note(self, text: str, at: float | None = None) -> None:
        passed = (self._world.loop.time() if at is None else at) - self._began
        self._happened.append((passed, text if passed < 2 * _MOMENT_S else f"{text}   after {passed:.1f} s"))

    # Commands

    async def _again(self) -> None:
        self._channels.clear()
        await self.start()
        # Coordinators are loaded.
        await asyncio.sleep(_MOMENT_S)

    async def _create(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        response = await self._administer(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        self._names[f"topic.{name}"] = response.topics[0].topic_id

    async def _administer(self, request: Request[Any], version: int) -> Any:
        channel = await self._channel("administrator")
        return await channel.request(request, version)

    async def _ask(self, client: str, rest: str) -> None:
        found = re.match(r"(\w+) v(\d+)\s*(.*)", rest)
        assert found, f"no command: {client} {rest}"
        request = build(request_class(_KEYS[found[1]]), parse_fields(found[3], self._names))
        channel = await self._channel(client)
        task = asyncio.get_running_loop().create_task(self._answered(client, channel, request, int(found[2])))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _channel(self, client: str) -> Channel:
        if client not in self._channels:
            self._channels[client] = await Channel.open(
                self._world.network.host(client), self._machine.name, 9092, client_id=client, timeout_s=1_000_000.0
            )
        return self._channels[client]

    async def _answered(self, client: str, channel: Channel, request: Request[Any], version: int) -> None:
        try:
            response = await channel.request(request, version)
        except NetworkError:
            self._note(f"{client} < lost")
            return
        member_id = getattr(response, "member_id", "")
        if member_id and member_id not in self._names.values():
            self._names[client] = member_id
        self._note(f"{client} < {self._show(response)}".rstrip())

    # Output

    def _show(self, message: Struct) -> str:
        return show(message, {value: name for name, value in self._names.items()}, hidden=_HIDDEN)

    def _look_at_logs(self) -> None:
        for partition in sorted(self._broker.replicas, key=lambda partition: (partition.topic, partition.index)):
            key = (partition.topic_id, partition.index)
            log = partition.log
            for is_control, producer, record in _records(log, self._shown_to.get(key, 0)):
                self._shown_to[key] = record.offset + 1
                at = (record.timestamp - self._world.clock.now_ms()) / 1000 + self._world.loop.time()
                if is_control:
                    kind = parse_control_type(record.key)
                    assert kind in (ControlType.COMMIT, ControlType.ABORT)
                    self._note(f"= {partition} {kind.name} {producer}", at)
                elif partition.topic in _COORDINATORS:
                    of = f" in {producer}" if producer else ""
                    self._note(f"* {self._shown_record(_COORDINATORS[partition.topic], record)}{of}", at)

    def _shown_record(self, coordinator: str, record: Record) -> str:
        assert record.key is not None
        key = decode_coordinator_key(coordinator, record.key)
        name = type(key).__name__.removesuffix("Key")
        if record.value is None:
            return f"{name}({self._show(key)}) removed"
        value, version = decode_coordinator_value(coordinator, type(key).record_type, record.value)
        return f"{name}({self._show(key)}) v{version} {self._show(value)}".rstrip()


def _records(log: Any, offset: int) -> Iterator[tuple[bool, str, Record]]:
    while log is not None and (found := log.read(max(offset, log.start_offset), 1 << 20, log.end_offset)) is not None:
        data = found.read()
        for position, header in batch_headers(data):
            producer = f"{header.producer_id}/{header.producer_epoch}" if header.is_transactional else ""
            for record in decode_batch(data, position):
                if record.offset >= offset:
                    yield header.is_control, producer, record
            offset = header.last_offset + 1
