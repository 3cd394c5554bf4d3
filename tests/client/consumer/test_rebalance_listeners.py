"""Listeners that fail, or that close or unsubscribe: the group continues, and the consumer stays usable."""

import asyncio
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import Closed, IllegalState, RebalanceInProgress
from tests.client.group_cluster import GroupCluster, Reader, play

CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
EAGER: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": ("range",)}
COOPERATIVE: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": ("cooperative-sticky",)}
every_protocol = pytest.mark.parametrize("protocol", [CONSUMER, EAGER, COOPERATIVE], ids=["kip848", "eager", "coop"])


class Listener:
    """Runs an action in one of its calls, once; and records its calls."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.when_assigned: Any = None
        self.when_revoked: Any = None

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.log.append(f"assigned {len(assigned)}")
        if self.when_assigned is not None and assigned:
            todo, self.when_assigned = self.when_assigned, None
            await todo()

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.log.append(f"revoked {len(revoked)}")
        if self.when_revoked is not None:
            todo, self.when_revoked = self.when_revoked, None
            await todo()


# Longer than any test waits.
LONG_MS = 3_600_000
LONG_SESSIONS = {
    "group.max.session.timeout.ms": str(LONG_MS),
    "group.consumer.max.session.timeout.ms": str(LONG_MS),
    "group.consumer.session.timeout.ms": str(LONG_MS),
}


async def two_members(cluster: GroupCluster, listener: Listener, protocol: dict[str, Any]) -> tuple[Reader, Reader]:
    """The first has the listener; a death is not noticed."""
    settings = protocol if protocol is CONSUMER else {**protocol, "session_timeout_ms": LONG_MS}
    first = await cluster.reader("first", listener=listener, **settings)
    second = await cluster.reader("second", **settings)
    await cluster.until_shared(first, second)
    return first, second


@every_protocol
@pytest.mark.parametrize("error", [ValueError("no"), RebalanceInProgress()], ids=["any error", "error of a commit"])
def test_closing_leaves_the_group_despite_a_failing_listener(protocol: dict[str, Any], error: Exception) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first, second = await two_members(cluster, listener, protocol)

        async def fail() -> None:
            raise error

        listener.when_revoked = fail
        with pytest.raises(type(error)):
            await first.close()
        with pytest.raises(Closed):
            await first.consumer.poll()
        await cluster.until_shared(second)

    play(scene, node_settings=LONG_SESSIONS)


@every_protocol
def test_unsubscribing_leaves_the_group_despite_a_failing_listener(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first, second = await two_members(cluster, listener, protocol)

        async def fail() -> None:
            raise ValueError("no")

        listener.when_revoked = fail
        await first.stall()
        with pytest.raises(ValueError, match="no"):
            await first.consumer.unsubscribe()
        assert first.assignment == set()
        assert first.consumer.subscription() == set()
        await cluster.until_shared(second)

    play(scene, node_settings=LONG_SESSIONS)


@every_protocol
@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_a_listener_may_leave_the_group(protocol: dict[str, Any], end: str) -> None:
    """It returns what it was just assigned; each callback is called once."""

    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first = await cluster.reader("first", listener=listener, **protocol)
        await first.stall()
        listener.when_assigned = getattr(first.consumer, end)
        with pytest.raises(Closed if end == "close" else IllegalState):
            await first.consumer.getone()
        assert [heard for heard in listener.log if not heard.endswith(" 0")] == ["assigned 4", "revoked 4"]
        assert first.assignment == set()
        second = await cluster.reader("second", **protocol)
        await cluster.until_shared(second)

    play(scene)


@every_protocol
def test_an_assignment_revoked_before_the_poll_is_not_delivered(protocol: dict[str, Any]) -> None:
    async def scene(cluster: GroupCluster) -> None:
        listener = Listener()
        first = await cluster.reader("first", listener=listener, max_poll_interval_ms=10_000, **protocol)
        await first.stall()
        await first.consumer.poll(timeout_ms=0)
        # All of it is assigned to the first, which does not poll; then it leaves.
        await asyncio.sleep(11)
        second = await cluster.reader("second", **protocol)
        await cluster.until_shared(second)
        first.resume()
        await cluster.until_shared(first, second)
        assert [heard for heard in listener.log if not heard.endswith(" 0")] == ["assigned 2"]

    play(scene, node_settings={})
