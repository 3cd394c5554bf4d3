"""A node's settings for connections to other nodes."""

import asyncio
from pathlib import Path

import pytest

from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.config.network.listener_tls import server_tls
from cordwood.config.network.peer_settings import peer_settings
from cordwood.net.peers.exceptions import Unreachable
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.common.scripted_node import scripted_node
from tests.net.certificates import authority


def test_timeouts_are_those_of_the_configuration() -> None:
    config = standalone_config(
        Layer(
            "test",
            {
                "request.timeout.ms": "1000",
                "socket.connection.setup.timeout.ms": "2000",
                "socket.connection.setup.timeout.max.ms": "3000",
                "connections.max.idle.ms": "4000",
            },
        )
    )
    assert peer_settings(config, config.listeners.inter_broker, "broker-1") == ConnectionSettings(
        client_id="broker-1",
        request_timeout_ms=1000,
        socket_connection_setup_timeout_ms=2000,
        socket_connection_setup_timeout_max_ms=3000,
        connections_max_idle_ms=4000,
    )


def test_nodes_show_each_other_the_certificates_of_the_listener(tmp_path: Path) -> None:
    """With ssl.client.auth=required, both sides verify the other's certificate."""
    ours = authority(tmp_path, "our-authority")
    keys = ours.issue("node")
    pem = tmp_path / "node.pem"
    pem.write_text("".join(Path(str(file)).read_text() for file in (keys.key_file, keys.certificate_file)))
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ours.ca_file,
        "ssl.client.auth": "required",
    }
    config = standalone_config(Layer("test", settings))

    async def main() -> None:
        [endpoint] = config.listeners.broker_endpoints
        async with scripted_node(None, tls=server_tls(config, endpoint)) as node:
            node.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse()
            tls = peer_settings(config, endpoint.listener, "broker-1")
            peer = Peer(SocketNetwork(), tls, SeededRandom(1), node.address)
            await peer.send(DescribeClusterRequest())
            await peer.close()
            without = Layer("test", {**settings, "ssl.truststore.location": authority(tmp_path, "other").ca_file})
            distrustful = peer_settings(standalone_config(without), endpoint.listener, "broker-1")
            peer = Peer(SocketNetwork(), distrustful, SeededRandom(1), node.address)
            with pytest.raises(Unreachable, match="certificate"):
                await peer.send(DescribeClusterRequest())
            await peer.close()

    asyncio.run(main())
