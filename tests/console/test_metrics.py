"""Metrics of a real node, read by Prometheus's own parser."""

import asyncio
import re
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cordwood.client.errors import BrokerError
from cordwood.console.loop_lag import LoopLag
from cordwood.sim.world import World
from cordwood.testing.assembly import start_node
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.console.measured_node import MeasuredNode, fetch_request, make_topic, measured_node, produce

DOCS = Path(__file__).parent.parent.parent / "docs"
PATIENCE_S = 60.0

Run = Callable[[Callable[[MeasuredNode], Awaitable[None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a test with a node."""

    def run_test(test: Callable[[MeasuredNode], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
                await test(measured)

        asyncio.run(main())

    return run_test


def test_the_page_matches_the_documented_metrics(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        await make_topic(measured, "orders")
        figures = await measured.scrape("?partitions=yes")
        page = (DOCS / "metrics.md").read_text()
        listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
        listed |= set(re.findall(r"`(cordwood_partition_\w+)`", page))
        served = {name + ("_total" if family.type == "counter" else "") for name, family in figures.families.items()}
        assert served == listed

    run(test)


def test_the_types_are_as_documented_and_names_as_prometheus_wants_them(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        figures = await measured.scrape()
        documented = re.findall(r"^\| `(\w+)` \| (\w+) \|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
        for name, kind in documented:
            assert figures.families[name.removesuffix("_total")].type == kind
            assert name.endswith("_total") == (kind == "counter")

    run(test)


def test_requests_are_counted_by_api_and_version(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        topic_id = await make_topic(measured, "orders")
        for _ in range(3):
            await produce(measured, topic_id)
        figures = await measured.scrape()
        assert figures.get("cordwood_requests_total", api="Produce", version="13") == 3
        assert figures.get("cordwood_request_duration_seconds_count", api="Produce") == 3
        assert figures.get("cordwood_request_duration_seconds_bucket", api="Produce", le="+Inf") == 3
        assert figures.get("cordwood_request_duration_seconds_sum", api="Produce") > 0

    run(test)


def test_bytes_are_counted_with_their_records(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        topic_id = await make_topic(measured, "orders")
        size = await produce(measured, topic_id)
        await (await measured.client.any_broker()).ask(fetch_request(topic_id, 0, 0))
        figures = await measured.scrape()
        assert size < figures.get("cordwood_request_bytes_total", api="Produce") < size + 200
        assert size < figures.get("cordwood_response_bytes_total", api="Fetch") < size + 200

    run(test)


def test_a_request_without_an_answer_is_counted_and_has_no_duration(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        topic_id = await make_topic(measured, "orders")
        await produce(measured, topic_id, acks=0)
        # Its answer comes after what was before it on the connection.
        await measured.client.all_topics()
        figures = await measured.scrape()
        assert figures.get("cordwood_requests_total", api="Produce", version="13") == 1
        assert figures.get("cordwood_request_duration_seconds_count", api="Produce") == 0

    run(test)


def test_a_fetch_that_waits_is_measured_when_it_is_answered(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        topic_id = await make_topic(measured, "orders")
        connection = await measured.client.any_broker()
        fetching = asyncio.create_task(connection.ask(fetch_request(topic_id, 0, 30_000)))
        while not (figures := await measured.scrape()).get("cordwood_requests_in_work"):
            pass
        assert figures.get("cordwood_requests_total", api="Fetch", version="18") == 1
        assert figures.get("cordwood_request_duration_seconds_count", api="Fetch") == 0
        # Past the connection of the fetch, whose answers come in order.
        partition = measured.node.broker.partition("orders", 0)
        assert partition is not None
        partition.append(encode_batch([Record(0, 1_700_000_000_000, None, b"x")]), -1, 1_700_000_000_000)
        await fetching
        figures = await measured.scrape()
        assert figures.get("cordwood_request_duration_seconds_count", api="Fetch") == 1
        assert figures.get("cordwood_requests_in_work") == 0

    run(test)


def test_errors_in_responses_are_counted_by_kafkas_names(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        with pytest.raises(BrokerError):
            await measured.client.topics(["no such topic"])
        topic_id = await make_topic(measured, "orders")
        await (await measured.client.any_broker()).ask(fetch_request(topic_id, 1_000, 0))
        figures = await measured.scrape()
        assert figures.get("cordwood_response_errors_total", api="Metadata", error="INVALID_TOPIC_EXCEPTION") == 1
        assert figures.get("cordwood_response_errors_total", api="Fetch", error="OFFSET_OUT_OF_RANGE") == 1

    run(test)


def test_connections_are_counted_by_listener(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        figures = await measured.scrape()
        assert figures.get("cordwood_connections", listener="PLAINTEXT") == 1
        assert figures.get("cordwood_connections", listener="CONTROLLER") == 0
        assert figures.get("cordwood_connections_accepted_total") == 1

    run(test)


def test_a_frame_of_a_wrong_size_is_counted(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        address = measured.node.addresses["PLAINTEXT"]
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(struct.pack(">i", -5))
        assert await reader.read() == b""
        writer.close()
        figures = await measured.scrape()
        assert figures.get("cordwood_bad_frames_total") == 1
        assert figures.get("cordwood_handler_failures_total") == 0

    run(test)


def test_sizes_are_those_of_the_logs_of_a_topic(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders, payments = await make_topic(measured, "orders"), await make_topic(measured, "payments", 4)
        size = await produce(measured, orders) + await produce(measured, orders)
        size_of_other = await produce(measured, payments)
        figures = await measured.scrape()
        assert figures.get("cordwood_topics") == 2
        assert figures.get("cordwood_partitions") == figures.get("cordwood_partitions_led") == 5
        assert figures.get("cordwood_partitions_offline") == 0
        assert figures.get("cordwood_topic_log_size_bytes", topic="orders") == size
        assert figures.get("cordwood_log_size_bytes") == size + size_of_other

    run(test)


def test_figures_of_each_partition_come_when_they_are_requested(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        await produce(measured, await make_topic(measured, "orders", 2))
        plain, detailed = await measured.scrape(), await measured.scrape("?partitions=yes")
        assert not [name for name in plain.families if name.startswith("cordwood_partition_")]
        assert detailed.get("cordwood_partition_log_end_offset", topic="orders", partition="0") == 3
        assert detailed.get("cordwood_partition_high_watermark", topic="orders", partition="0") == 3
        assert detailed.get("cordwood_partition_log_end_offset", topic="orders", partition="1") == 0

    run(test)


def test_the_process_is_measured(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        figures = await measured.scrape()
        assert figures.get("process_cpu_seconds_total") > 0
        assert figures.get("process_resident_memory_bytes") > 10_000_000
        assert 0 < figures.get("process_open_fds") <= figures.get("process_max_fds")
        assert figures.get("process_start_time_seconds") > 1_600_000_000

    run(test)


def test_a_node_without_metrics_measures_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        node = await start_node({}, str(tmp_path), 0)
        assert node.broker_role is not None
        assert node.broker_role.pipeline._measures is None
        await node.stop()

    asyncio.run(main())


def test_the_lag_of_a_loop_is_how_late_its_timers_are() -> None:
    class HeldClock:
        """A clock that has continued by half a second each time that a timer comes."""

        def __init__(self, world: World) -> None:
            self._world = world
            self.held_s = 0.0

        def monotonic(self) -> float:
            return self._world.clock.monotonic() + self.held_s

        def now_ms(self) -> int:
            return self._world.clock.now_ms()

        def sleep(self, seconds: float) -> None:
            raise NotImplementedError

    world = World(seed=1)

    async def main() -> None:
        clock = HeldClock(world)
        lag = LoopLag(clock)
        await asyncio.sleep(0.9)
        assert lag.lags.count == 3
        clock.held_s = 0.5
        await asyncio.sleep(0.2)
        lag.stop()
        await asyncio.sleep(10)
        lines = dict(line.rsplit(" ", 1) for line in lag.lags.lines("lag", ()))
        assert lines['lag_bucket{le="0.001"}'] == "3"
        assert lines['lag_bucket{le="0.25"}'] == "3"
        assert lines['lag_bucket{le="1.0"}'] == lines["lag_count"] == "4"

    world.run(main())


def test_the_quorum_is_measured_under_kafkas_names(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        await make_topic(measured, "t")
        figures = await measured.scrape()
        assert figures.get("kafka_server_raftmetrics_current_leader") == measured.node.config.node_id
        assert figures.get("kafka_server_raftmetrics_current_state", state="leader") == 1
        assert figures.get("kafka_server_raftmetrics_current_epoch") >= 1
        end = figures.get("kafka_server_raftmetrics_log_end_offset")
        assert 0 < figures.get("kafka_server_raftmetrics_high_watermark") <= end
        assert figures.get("kafka_server_raftmetrics_append_records_rate") > 0
        assert figures.get("kafka_server_raftmetrics_commit_latency_avg") >= 0
        assert figures.get("kafka_server_raftmetrics_number_of_voters") == 1

    run(test)
