"""Brokers that cannot be reached: what Spark's processes report, and what is shown of it."""

import asyncio
import io
import struct
import time
from collections.abc import Mapping

import pytest
from rich.console import Console
from rich.live import Live

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.peers.channel import Channel
from cordwood.net.server import Server
from cordwood.net.serving import Answer, Reply
from cordwood.runtime.network import CannotConnect
from cordwood.runtime.sockets import SocketNetwork
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.spark.pipelines.display import Lines, LiveTable
from cordwood.spark.pipelines.figures import QueryFigures
from cordwood.spark.pipelines.outages import Outages
from cordwood.spark.reports import listening, report
from cordwood.spark.watched_network import WatchedNetwork, network_for

REFUSED = {"address": "a:1", "reason": "cannot connect to a:1: Connection refused"}
NOON_S = time.mktime((2026, 1, 2, 12, 0, 0, 0, 0, -1))


class Clock:
    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


def unreachable(outages: Outages, doing: str = "reading", address: str = "a:1") -> None:
    outages.take({**REFUSED, "kind": "unreachable", "doing": doing, "address": address})


def test_an_outage_is_logged_with_reason_start_and_retries() -> None:
    clock = Clock()
    outages = Outages(clock)
    unreachable(outages, "writing")
    clock.now_s += 45
    unreachable(outages, "reading")
    (outage,) = outages.current()
    assert outage.told(clock()) == (
        "cannot connect to a:1: Connection refused, since 12:00:00 (45 s); retrying: reading, writing"
    )
    outages.take({"kind": "reached", "address": "a:1"})
    assert outages.current() == []
    assert outages.over() == ["a:1 can be reached again, after 45 s (12:00:00 to 12:00:45)"]
    assert outages.over() == []


def test_a_broker_with_two_names_is_one_outage() -> None:
    ip_addresses = {"localhost": ("::1", "127.0.0.1"), "127.0.0.1": ("127.0.0.1",), "b": ("10.0.0.2",)}
    outages = Outages(Clock(), ip_addresses.__getitem__)
    for address in ("localhost:9092", "127.0.0.1:9092", "127.0.0.1:9093", "b:9092"):
        unreachable(outages, address=address)
    assert [outage.address for outage in outages.current()] == ["localhost:9092", "127.0.0.1:9093", "b:9092"]
    outages.take({"kind": "reached", "address": "127.0.0.1:9092"})
    assert [outage.address for outage in outages.current()] == ["127.0.0.1:9093", "b:9092"]


def test_a_query_waits_for_brokers_when_it_has_done_nothing_since_they_are_gone() -> None:
    clock = Clock()
    outages = Outages(clock)
    assert not outages.hold_up(0)
    unreachable(outages)
    clock.now_s += 4
    assert not outages.hold_up(NOON_S - 1), "a broker may be gone for a moment"
    clock.now_s += 1
    assert outages.hold_up(NOON_S - 1)
    assert not outages.hold_up(NOON_S + 1)


def test_an_outage_without_new_failures_is_forgotten() -> None:
    clock = Clock()
    outages = Outages(clock)
    unreachable(outages)
    clock.now_s += 59
    assert len(outages.current()) == 1
    unreachable(outages)
    clock.now_s += 60
    assert outages.current() == []
    assert outages.over() == []


def test_lines_report_an_outage_periodically_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    outages, lines = Outages(clock), Lines()
    for _ in range(100):
        unreachable(outages)
        lines.show([], outages)
        clock.now_s += 1
    outages.take({"kind": "reached", "address": "a:1"})
    lines.show([], outages)
    *during, after = capsys.readouterr().err.splitlines()
    assert [line.partition("(")[2].partition(")")[0] for line in during] == ["0 s", "15 s", "30 s", "60 s"]
    assert after == "a:1 can be reached again, after 100 s (12:00:00 to 12:01:40)"


def test_a_terminal_shows_an_outage_below_the_table_and_its_end_above() -> None:
    clock = Clock()
    outages, screen = Outages(clock), io.StringIO()
    unreachable(outages)
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        LiveTable(live).show([QueryFigures("q")], outages)
        assert "a:1: Connection refused, since 12:00:00 (0 s); retrying: reading" in screen.getvalue()
        outages.take({"kind": "reached", "address": "a:1"})
        screen.truncate(0)
        LiveTable(live).show([QueryFigures("q")], outages)
    assert screen.getvalue().index("can be reached again") < screen.getvalue().rindex("batches")
    assert "retrying" not in screen.getvalue()


def test_reports_of_all_processes_arrive_while_a_listener_is_open() -> None:
    heard: list[Mapping[str, object]] = []
    report("before")
    with listening(heard.append):
        assert isinstance(network_for("reading"), WatchedNetwork)
        report("unreachable", address="a:1")
        report("reached", address="a:1")
    report("after")
    assert isinstance(network_for("reading"), SocketNetwork)
    assert heard == [{"kind": "unreachable", "address": "a:1"}, {"kind": "reached", "address": "a:1"}]


def test_a_network_reports_failures_and_the_first_success_after_them() -> None:
    told: list[tuple[str, dict[str, object]]] = []
    world = World(seed=1)

    async def scenario() -> None:
        server = world.network.host("a")
        client = world.network.host("client")
        watched = WatchedNetwork(client, "writing", lambda kind, **content: told.append((kind, content)))
        with pytest.raises(CannotConnect):
            await watched.connect("a", 1)
        assert told.pop() == ("unreachable", {**REFUSED, "doing": "writing"})
        await Server(server, answer).listen("TEST", "a", 1)
        for _ in range(2):
            channel = await Channel.open(watched, "a", 1)
            await channel.exchange([REQUEST], 7)
        assert told == [("reached", {"address": "a:1"})]

    world.run(scenario())


def test_a_network_reports_an_address_that_does_not_answer() -> None:
    told: list[tuple[str, object]] = []
    world = World(seed=1)

    async def scenario() -> None:
        await Server(world.network.host("a"), answer).listen("TEST", "a", 1)
        client = world.network.host("client")
        watched = WatchedNetwork(client, "writing", lambda kind, **content: told.append((kind, content.get("reason"))))
        world.network.cut("a")
        connecting = asyncio.create_task(Channel.open(watched, "a", 1))
        await asyncio.sleep(10)
        assert told == [("unreachable", "cannot connect to a:1: no answer yet")]
        world.network.heal("a")
        channel = await connecting
        assert told[1:] == [], "it may hang"
        await channel.exchange([REQUEST], 7)
        assert told[1:] == [("reached", None)]

    world.run(scenario())


def test_a_network_reports_a_broker_that_accepts_connections_and_does_not_answer() -> None:
    told: list[tuple[str, object]] = []
    replies: list[Reply] = []
    world = World(seed=1, odds=NetworkOdds(delay_s=0.001, slow=0.0, split=0.0))

    def hang(frame: bytearray, connection: ConnectionInfo) -> Answer:
        replies.append(Reply())
        return replies[-1]

    async def scenario() -> None:
        await Server(world.network.host("a"), hang).listen("TEST", "a", 1)
        client = world.network.host("client")
        watched = WatchedNetwork(client, "writing", lambda kind, **content: told.append((kind, content.get("reason"))))
        channel = await Channel.open(watched, "a", 1)
        await asyncio.sleep(60)
        assert told == [], "it was not asked anything"
        asking = asyncio.create_task(channel.exchange([REQUEST], 7))
        await asyncio.sleep(25)
        assert told == [
            ("unreachable", "a:1 accepts connections, and has not answered for 10 s"),
            ("unreachable", "a:1 accepts connections, and has not answered for 20 s"),
        ]
        replies[0].answer([REQUEST])
        await asking
        assert told[2:] == [("reached", None)]
        await asyncio.sleep(60)
        assert told[3:] == []

    world.run(scenario())


# A frame with a correlation id.
REQUEST = struct.pack(">ii", 4, 7)


def answer(frame: bytearray, connection: ConnectionInfo) -> Answer:
    return [REQUEST]
