"""Traffic by topic, and lag by group, of a real node."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from cordwood.client.admin.configs import (
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    describe_configs,
    incremental_alter_configs,
)
from cordwood.client.admin.offsets import alter_group_offsets
from cordwood.client.admin.topics import delete_topics, until_gone
from cordwood.client.cluster import TopicPartition
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.node import Node
from cordwood.testing.assembly import start_node
from tests.console.measured_node import Figures, MeasuredNode, fetch_request, make_topic, measured_node, produce

PATIENCE_S = 60.0
OTHER = "(other)"

Test = Callable[[MeasuredNode], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Runs a test with a node; settings by their names, with underscores for dots."""

    def run_test(test: Test, **settings: str) -> None:
        said = {name.replace("_", "."): value for name, value in settings.items()}

        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path, said) as measured:
                await test(measured)

        asyncio.run(main())

    return run_test


Run = Callable[..., None]


def traffic(figures: Figures, topic: str) -> dict[str, float]:
    """messages_in, bytes_in, messages_out, bytes_out"""
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    return {name: figures.get(f"cordwood_topic_{name}_total", topic=topic) for name in names}


def topics_of(figures: Figures, family: str = "cordwood_topic_messages_in") -> list[str]:
    return [sample.labels["topic"] for sample in figures.families[family].samples]


async def fetch(measured: MeasuredNode, topic_id: bytes, offset: int, **options: int) -> None:
    await (await measured.client.any_broker()).ask(fetch_request(topic_id, offset, 0, **options))


async def commit(measured: MeasuredNode, group_id: str, offsets: dict[tuple[str, int], int]) -> None:
    committed = {TopicPartition(*key): OffsetAndMetadata(offset) for key, offset in offsets.items()}
    results = await alter_group_offsets(measured.client, group_id, committed)
    assert not any(results.values())


async def change(measured: MeasuredNode, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResourceType.BROKER, "")
    changed = await incremental_alter_configs(measured.client, {resource: [ConfigChange(name, value=value)]})
    assert changed[resource] is None


# In and out


def test_appends_and_reads_are_counted_by_topic(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders, payments = await make_topic(measured, "orders"), await make_topic(measured, "payments")
        size = await produce(measured, orders)
        await produce(measured, orders, acks=1)
        await produce(measured, payments, acks=0)
        await fetch(measured, orders, 0)
        await fetch(measured, orders, 4)
        figures = await measured.scrape()
        # The second read begins within the second batch, which is sent as a whole.
        assert traffic(figures, "orders") == {
            "messages_in": 6,
            "bytes_in": 2 * size,
            "messages_out": 6 + 2,
            "bytes_out": 3 * size,
        }
        assert traffic(figures, "payments") == {"messages_in": 3, "bytes_in": size, "messages_out": 0, "bytes_out": 0}

    run(test)


@pytest.mark.parametrize("isolation_level", [0, 1], ids=["uncommitted", "committed"])
def test_a_batch_that_is_cut_short_counts_when_it_comes_whole(run: Run, isolation_level: int) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders = await make_topic(measured, "orders")
        size = await produce(measured, orders)
        for _ in range(2):
            await produce(measured, orders)
        await fetch(measured, orders, 0, max_bytes=2 * size + size // 2, isolation_level=isolation_level)
        figures = traffic(await measured.scrape(), "orders")
        assert (figures["messages_out"], figures["bytes_out"]) == (6, 2 * size + size // 2)

    run(test)


def test_a_fetch_that_finds_nothing_counts_nothing(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders = await make_topic(measured, "orders")
        await produce(measured, orders)
        await fetch(measured, orders, 3)
        await fetch(measured, orders, 1_000)
        assert traffic(await measured.scrape(), "orders")["bytes_out"] == 0

    run(test)


def test_a_node_without_metrics_counts_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        node: Node = await start_node({}, str(tmp_path), 0)
        assert node.broker.replicas.traffic is None
        assert all(partition.traffic is None for partition in node.broker.replicas)
        await node.stop()

    asyncio.run(main())


def test_topics_of_before_the_counting_are_counted_from_then_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            await produce(measured, await make_topic(measured, "orders"))
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            assert traffic(await measured.scrape(), "orders")["messages_in"] == 0
            topic_id = measured.node.broker.topic_id("orders")
            assert topic_id is not None
            await produce(measured, topic_id)
            assert traffic(await measured.scrape(), "orders")["messages_in"] == 3

    asyncio.run(main())


# How many


def test_topics_beyond_the_bound_are_summed_up(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        ids = {name: await make_topic(measured, name) for name in ("a", "b", "c", "d")}
        size = 0
        for topic_id in ids.values():
            size = await produce(measured, topic_id)
        figures = await measured.scrape()
        assert topics_of(figures) == topics_of(figures, "cordwood_topic_log_size_bytes") == ["a", "b", OTHER]
        assert traffic(figures, OTHER) == {"messages_in": 6, "bytes_in": 2 * size, "messages_out": 0, "bytes_out": 0}
        assert figures.get("cordwood_topic_log_size_bytes", topic=OTHER) == 2 * size
        # Those that are shown stay, also when others come that are before them in the alphabet.
        ids["A"] = await make_topic(measured, "A")
        await produce(measured, ids["A"])
        figures = await measured.scrape()
        assert topics_of(figures) == ["a", "b", OTHER]
        assert traffic(figures, OTHER)["messages_in"] == 9
        # A counter never falls: what has been counted of the others stays when they go, or get their own figures.
        await delete_topics(measured.client, ["a", "c"])
        await until_gone(measured.client, ["a", "c"])
        await produce(measured, ids["d"])
        figures = await measured.scrape()
        assert topics_of(figures) == ["A", "b", OTHER]
        assert traffic(figures, "A")["messages_in"] == 3
        assert traffic(figures, OTHER)["messages_in"] == 12
        assert figures.get("cordwood_topic_log_size_bytes", topic=OTHER) == 2 * size

    run(test, cordwood_metrics_topics_max="2")


def test_a_recreated_topic_starts_over(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        await produce(measured, await make_topic(measured, "orders"))
        assert traffic(await measured.scrape(), OTHER)["messages_in"] == 3
        await delete_topics(measured.client, ["orders"])
        await until_gone(measured.client, ["orders"])
        await produce(measured, await make_topic(measured, "orders"))
        assert traffic(await measured.scrape(), OTHER)["messages_in"] == 6

    run(test, cordwood_metrics_topics_max="0")


def test_the_bound_and_the_switch_can_be_changed_while_the_node_runs(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        for name in ("a", "b"):
            await produce(measured, await make_topic(measured, name))
        assert topics_of(await measured.scrape()) == ["a", "b"]
        await change(measured, "cordwood.metrics.topics.max", "1")
        figures = await measured.scrape()
        assert topics_of(figures) == ["a", OTHER]
        # Traffic reported under its own name is not reported again.
        assert traffic(figures, OTHER)["messages_in"] == 0
        await change(measured, "cordwood.metrics.topics.enable", "false")
        assert not [name for name in (await measured.scrape()).families if name.startswith("cordwood_topic_")]

    run(test)


def test_settings_of_ours_are_described_once_they_are_set(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        resource = ConfigResource(ConfigResourceType.BROKER, "1")

        async def names() -> list[str]:
            described = (await describe_configs(measured.client, [resource]))[resource]
            assert isinstance(described, list)
            return [entry.name for entry in described if entry.name.startswith("cordwood.")]

        assert await names() == []
        await change(measured, "cordwood.metrics.topics.max", "5")
        assert await names() == ["cordwood.metrics.topics.max"]

    run(test)


# Lag


def lags(figures: Figures) -> dict[tuple[str, str, str], float]:
    return {
        (sample.labels["group"], sample.labels["topic"], sample.labels["partition"]): sample.value
        for sample in figures.families["cordwood_consumer_group_lag"].samples
    }


def test_lag_is_the_distance_from_the_committed_offset_to_the_high_watermark(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders = await make_topic(measured, "orders", 2)
        for _ in range(4):
            await produce(measured, orders)
        await commit(measured, "billing", {("orders", 0): 5, ("orders", 1): 0})
        await commit(measured, "audit", {("orders", 0): 12})
        expected = {("audit", "orders", "0"): 0, ("billing", "orders", "0"): 7, ("billing", "orders", "1"): 0}
        assert lags(await measured.scrape()) == expected
        await produce(measured, orders)
        assert lags(await measured.scrape())["audit", "orders", "0"] == 3
        # Past the end, as after a truncation: behind nothing.
        await commit(measured, "audit", {("orders", 0): 99})
        assert lags(await measured.scrape())["audit", "orders", "0"] == 0

    run(test)


def test_the_lag_of_a_consumer_that_others_wrote(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        await produce(measured, await make_topic(measured, "orders"))

        def read_two() -> None:
            consumer = Consumer(
                {
                    "bootstrap.servers": measured.node.bootstrap,
                    "group.id": "readers",
                    "auto.offset.reset": "earliest",
                    "enable.auto.offset.store": False,
                }
            )
            consumer.subscribe(["orders"])
            for _ in range(2):
                message = None
                while message is None:
                    message = consumer.poll(1)
                assert message.error() is None
                consumer.store_offsets(message)
            consumer.commit(asynchronous=False)
            consumer.close()

        await asyncio.to_thread(read_two)
        figures = await measured.scrape()
        assert lags(figures) == {("readers", "orders", "0"): 1}
        assert traffic(figures, "orders")["messages_out"] == 3
        assert traffic(figures, "__consumer_offsets")["messages_in"] > 0

    run(test)


def test_lags_beyond_the_bound_are_summed_up_and_the_switch_ends_them(run: Run) -> None:
    async def test(measured: MeasuredNode) -> None:
        orders = await make_topic(measured, "orders", 3)
        await produce(measured, orders)
        for group_id in ("a", "b"):
            await commit(measured, group_id, {("orders", index): 0 for index in range(3)})
        assert lags(await measured.scrape()) == {
            ("a", "orders", "0"): 3,
            ("a", "orders", "1"): 0,
            (OTHER, OTHER, OTHER): 3,
        }
        await change(measured, "cordwood.metrics.consumer.lag.enable", "false")
        assert "cordwood_consumer_group_lag" not in (await measured.scrape()).families

    run(test, cordwood_metrics_consumer_lag_max="2")
