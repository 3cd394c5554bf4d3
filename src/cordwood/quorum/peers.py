"""The other members of the quorum, over connections."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from cordwood.net.peers.exceptions import PeerError, Unreachable, UnsupportedByPeer
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.raft.config import QuorumConfig
from cordwood.raft.identity import Node
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.runtime.tls import ClientTls
from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import Request, Response

from .member import PeerFailed
from .reachability import Reachability

_log = logging.getLogger(__name__)


class PeerConnections:
    """`Peers` that are reached over the network, a connection for each address."""

    def __init__(
        self, node_id: int, config: QuorumConfig, tls: ClientTls | None, network: Network, random: Random
    ) -> None:
        self._settings = ConnectionSettings(
            client_id=f"raft-client-{node_id}",
            tls=tls,
            request_timeout_ms=config.request_timeout_ms,
            # The machine has its own back-off, and knows which peer it needs.
            reconnect_backoff_ms=0,
            reconnect_backoff_max_ms=0,
            socket_connection_setup_timeout_ms=config.request_timeout_ms,
            socket_connection_setup_timeout_max_ms=config.request_timeout_ms,
        )
        self._network = network
        self._random = random
        self._peers: dict[Address, Peer] = {}
        self._reachability = Reachability()

    async def ask(self, node: Node, request: Request[Any]) -> Response:
        address = Address(node.host, node.port)
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = Peer(self._network, self._settings, self._random, address)
        asked_at = asyncio.get_running_loop().time()
        try:
            response: Response = await peer.send(request)
        except UnsupportedByPeer as error:
            raise PeerFailed(ErrorCode.UNSUPPORTED_VERSION) from error
        except Unreachable as error:
            self._failed(address, asked_at, error)
            raise PeerFailed(ErrorCode.BROKER_NOT_AVAILABLE) from error
        except PeerError as error:
            self._failed(address, asked_at, error)
            raise PeerFailed(ErrorCode.NETWORK_EXCEPTION) from error
        away_s = self._reachability.succeeded(address, asyncio.get_running_loop().time())
        if away_s is not None:
            _log.warning("Controller %s is reachable again after %.0f s", address, away_s)
        return response

    def _failed(self, address: Address, asked_at: float, error: PeerError) -> None:
        away = self._reachability.failed(address, asked_at, asyncio.get_running_loop().time())
        if away is not None:
            told = ", ".join(f"{each} (for {seconds:.0f} s)" for each, seconds in away.items())
            _log.warning(
                "Controllers cannot be reached: %s; retrying. Last error: %s. Check that they run, and their addresses "
                "in controller.quorum.bootstrap.servers or controller.quorum.voters",
                told,
                error,
            )

    async def close(self) -> None:
        for peer in self._peers.values():
            await peer.close()
