"""Cordwood's own client while nodes end and connections are cut: nothing lost or twice, each partition in its order."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from cordwood import CannotReachCluster, Producer
from tests.foreign_clients.cordwood_client import CordwoodClient
from tests.foreign_clients.cutting_proxy import CuttingProxy
from tests.foreign_clients.flow import PARTITIONS, flow_of_tasks, flow_of_threads
from tests.foreign_clients.group_fixtures import SETTINGS
from tests.foreign_clients.kafka_client import Address, eventually, read
from tests.foreign_clients.node_process import Nodes, free_port, kill, stop

StartNode = Callable[..., Nodes]

TRANSACTIONAL = pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])


def create(address: Address, topic: str) -> None:
    admin = CordwoodClient(address)
    admin.create_topic(topic, PARTITIONS)
    eventually(lambda: admin.leaders(topic), lambda leaders: len(leaders) == PARTITIONS)
    admin.close()


@TRANSACTIONAL
@pytest.mark.parametrize("end", [stop, kill])
def test_threads_produce_and_consume_through_the_ends_of_their_node(
    own_node: StartNode, topic: str, end: Callable[[Nodes], None], transactional: bool
) -> None:
    node = own_node(SETTINGS)
    address = Address(node.bootstrap)
    create(address, topic)
    with flow_of_threads(address, topic, transactional=transactional) as flow:
        for _ in range(2):
            flow.await_more()
            end(node)
            node.start()
        flow.await_more()
    flow.check()


@TRANSACTIONAL
def test_tasks_produce_and_consume_through_kills_of_their_node(
    own_node: StartNode, topic: str, transactional: bool
) -> None:
    node = own_node(SETTINGS)
    address = Address(node.bootstrap)
    create(address, topic)

    async def scene() -> None:
        async with flow_of_tasks(address, topic, transactional=transactional) as flow:
            for _ in range(2):
                await asyncio.to_thread(flow.await_more)
                node.kill()
                await asyncio.to_thread(node.start)
            await asyncio.to_thread(flow.await_more)
        flow.check()

    asyncio.run(scene())


@TRANSACTIONAL
def test_threads_produce_and_consume_while_connections_are_cut(
    proxy: CuttingProxy, topic: str, transactional: bool
) -> None:
    address = Address(proxy.bootstrap)
    proxy.cutting = False
    create(address, topic)
    proxy.cutting = True
    with flow_of_threads(address, topic, transactional=transactional) as flow:
        eventually(lambda: proxy.cuts > 20 and flow.read_count > 1000)
        proxy.cutting = False
    flow.check()


def test_one_bootstrap_address_that_answers_is_enough(address: Address, topic: str) -> None:
    """Nobody listens at the first, and who listens at the second never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = f"127.0.0.1:{free_port()}"
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        with Producer(
            bootstrap_servers=[dead, mute, address.bootstrap], socket_connection_setup_timeout_ms=100
        ) as producer:
            producer.send_and_wait(topic, "found")
    assert [record.value for record in read(CordwoodClient(address), topic, 1)] == [b"found"]


def test_unreachable_bootstrap_addresses_are_named_with_their_reasons() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = f"127.0.0.1:{free_port()}"
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CannotReachCluster) as failed:
            Producer(bootstrap_servers=[dead, mute], socket_connection_setup_timeout_ms=100)
    assert {str(address) for address in failed.value.failures} == {dead, mute}
    assert f"{dead}: Connection refused" in str(failed.value)
    assert f"no response from {mute}" in str(failed.value)
