"""A node: a process with the controller role, the broker role, or both, from its configuration to a clean stop.

    node = await Node.start(
        config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(), open_disk=LocalDisk
    )
    node.bootstrap                      # "127.0.0.1:9092"
    await node.stopped.wait()           # only if an essential disk fails: `failure` says which await node.stop()

All access to the outside world is passed in: the simulator runs the same code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from cordwood.broker.background import Background
from cordwood.broker.broker import Broker
from cordwood.broker.controller.remote_channel import ActiveController, RemoteChannel
from cordwood.broker.role import STOP_GRACE_S, BrokerRole
from cordwood.broker.start.consent import StartConsent
from cordwood.broker.start.log_dirs import CannotStart as CannotStart
from cordwood.broker.start.log_dirs import LogDirs, take_directories
from cordwood.config.broker import BrokerConfig
from cordwood.config.network.listener_tls import ListenerTls, client_tls
from cordwood.config.network.peer_settings import peer_settings
from cordwood.config.network.serving import Listening, limits_of, listen
from cordwood.controller.controller import Controller
from cordwood.controller.role import ControllerRole
from cordwood.controller.upkeep import Upkeep
from cordwood.metadata.bootstrap import read_bootstrap
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.features import TOLERATED, unsupported_feature
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import LeaderAndEpoch
from cordwood.metadata.node_config import NodeConfig
from cordwood.metadata.storage.disk_log import DiskLog, MetadataLogConfig
from cordwood.net.gate import Gate
from cordwood.net.measures import Measures
from cordwood.net.peers.peer import Peer
from cordwood.net.server import Server
from cordwood.quorum.configuration import configured_voters, replica_config
from cordwood.quorum.member import Member
from cordwood.quorum.peers import PeerConnections
from cordwood.raft.exceptions import InconsistentQuorum, WrongIdentity
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Present only if share groups were used.
SHARE_STATE_TOPIC = "__share_group_state"


class Halt:
    """The reason why a node cannot continue, once there is one. `stopped` is set then."""

    def __init__(self, stopped: asyncio.Event) -> None:
        self.failure: Exception | None = None
        self.stopped = stopped
        self._failed = asyncio.Event()

    def fail(self, error: Exception) -> None:
        """Records the failure of the metadata log, of the last log directory, or of metadata that contradicts the
        quorum's."""
        if self.failure is None:
            self.failure = error
            _log.critical("Fatal error, shutting down: %s", error)
            self._failed.set()
            self.stopped.set()

    async def unless_failed(self, starting: Coroutine[Any, Any, T]) -> T:
        """Awaits `starting`, but raises a failure of the node as soon as it happens: the start may wait for something
        that a failed node never does."""
        loop = asyncio.get_running_loop()
        start, failing = loop.create_task(starting), loop.create_task(self._failed.wait())
        try:
            await asyncio.wait((start, failing), return_when=asyncio.FIRST_COMPLETED)
            if not start.done() and self.failure is not None:
                raise self.failure
        finally:
            failing.cancel()
            if not start.done():
                start.cancel()
                await asyncio.gather(start, return_exceptions=True)
            elif not start.cancelled():
                # It may have failed just when the caller was cancelled: then no one else retrieves its exception.
                start.exception()
        return await start


class Node:
    """A node that has started, see `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        halt: Halt,
        metadata_disk: Disk,
        quorum: Member,
        loader: Loader,
        upkeep: Upkeep,
        channels: _Channels,
        controller_role: ControllerRole | None,
        broker_role: BrokerRole | None,
    ) -> None:
        self.config = config
        # As in process.roles: one of them may be None.
        self.controller_role = controller_role
        self.broker_role = broker_role
        # The address of each listener, by its name.
        self.addresses: dict[str, Address] = {
            name: address
            for role in (broker_role, controller_role)
            if role is not None
            for name, address in role.listening.addresses.items()
        }
        self._halt = halt
        self._metadata_disk = metadata_disk
        self.quorum = quorum
        self.loader = loader
        self._upkeep = upkeep
        self._channels = channels

    # Starting

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        open_disk: Callable[[str], Disk],
        consent: StartConsent | None = None,
        measures: Measures | None = None,
        stopped: asyncio.Event | None = None,
        watch_quorum: Callable[[Member], None] = lambda _member: None,
    ) -> Node:
        """Returns a node that serves requests, and measures them with `measures`. Raises `CannotStart`, `CannotListen`,
        `TlsError`, `DiskError`. `stopped` is set when the node cannot continue. `watch_quorum` gets the node's member
        of the metadata quorum before that participates: it may lead long before the node has started."""
        opened: list[Disk] = []

        def open_and_note(root: str) -> Disk:
            opened.append(open_disk(root))
            return opened[-1]

        halt = Halt(asyncio.Event() if stopped is None else stopped)
        try:
            gate = Gate(measures=measures)
            return await halt.unless_failed(
                cls._start(
                    config, halt, consent or StartConsent(), gate, network, clock, random, open_and_note, watch_quorum
                )
            )
        except BaseException as error:
            # The process may continue, and need the locked directories.
            for disk in opened:
                disk.close()
            if halt.failure is not None and isinstance(error, CannotStart | Refusal):
                raise halt.failure from error
            if isinstance(error, InvalidMetadata | InconsistentQuorum | WrongIdentity):
                raise CannotStart(str(error)) from error
            raise

    @classmethod
    async def _start(
        cls,
        config: BrokerConfig,
        halt: Halt,
        consent: StartConsent,
        gate: Gate,
        network: Network,
        clock: Clock,
        random: Random,
        open_disk: Callable[[str], Disk],
        watch_quorum: Callable[[Member], None],
    ) -> Node:
        roles = config.items("process.roles")
        taken = take_directories(config, open_disk, random, accept_metadata_loss=consent.accept_metadata_loss)
        listeners, tls = config.listeners, ListenerTls(config)
        # Before anything is formatted: a port may be in use. Connections wait until the node has started.
        for_brokers = await listen(network, config, listeners.broker_endpoints, tls)
        servers = [for_brokers.server]
        member: Member | None = None
        try:
            for_controllers = await listen(network, config, listeners.controller_endpoints, tls)
            servers.append(for_controllers.server)
            dirs = taken.format(random, clock.now_ms())
            log = DiskLog.open(
                dirs.metadata,
                _metadata_log_config(config),
                random,
                now_ms=clock.now_ms(),
                accept_loss=consent.accept_metadata_loss,
            )
            loader = log.newest_image()
            member = _member(
                config, consent, dirs, for_controllers, log, loader, network, clock, random.fork("quorum"), halt.fail
            )
            node_config = NodeConfig(config, loader.image)
            loader.subscribe(node_config)
            controller_role = None
            if "controller" in roles:
                controller_role = ControllerRole(
                    node_config,
                    dirs.cluster_id,
                    member,
                    loader,
                    partial(read_bootstrap, dirs.metadata),
                    for_controllers,
                    gate,
                    network=network,
                    clock=clock,
                    random=random.fork("controller"),
                )
            watch_quorum(member)
            member.start()
            if controller_role is not None:
                controller_role.accept()
            await member.caught_up()
            await _activated(loader, halt)
            _check_features(loader.image)
            channels = _channels(config, member, controller_role, network, random.fork("channels"))
            if controller_role is not None:
                await controller_role.register(channels.requests.ask)
            broker_role = None
            if "broker" in roles:

                def failed(error: DiskError) -> None:
                    if error.root == dirs.metadata.root:
                        member.fail(error)
                    halt.fail(error)

                broker_role = await BrokerRole.start(
                    node_config,
                    dirs,
                    channels.requests,
                    channels.heartbeats,
                    member,
                    loader,
                    failed,
                    halt.fail,
                    consent,
                    for_brokers,
                    gate,
                    network=network,
                    clock=clock,
                    random=random.fork("broker"),
                )
        except BaseException:
            if member is not None:
                member.abandon()
            for server in servers:
                await server.stop(0)
            raise
        for server in servers:
            node_config.subscribe(partial(_set_limits, server))
        node_config.subscribe(tls.reload)
        upkeep = Upkeep(member, loader, clock, member.fail)
        node = cls(config, halt, dirs.metadata, member, loader, upkeep, channels, controller_role, broker_role)
        if broker_role is not None:
            broker_role.accept()
        return node

    # While it runs

    @property
    def bootstrap(self) -> str:
        """The address of the first listener, for clients."""
        listeners = self.config.listeners
        endpoints = listeners.controller_endpoints if self.broker_role is None else listeners.broker_endpoints
        return str(self.addresses[endpoints[0].listener])

    @property
    def stopped(self) -> asyncio.Event:
        """Set when the node cannot continue."""
        return self._halt.stopped

    @property
    def failure(self) -> Exception | None:
        return self._halt.failure

    @property
    def servers(self) -> list[Server]:
        """The servers of its roles, the broker's first."""
        return [role.listening.server for role in (self.broker_role, self.controller_role) if role is not None]

    @property
    def cluster_id(self) -> str:
        return self.broker.cluster_id if self.controller_role is None else self.controller.cluster_id

    @property
    def controller(self) -> Controller:
        assert self.controller_role is not None, "the node has no controller role"
        return self.controller_role.controller

    @property
    def broker(self) -> Broker:
        return self._with_broker.broker

    @property
    def server(self) -> Server:
        """The server of the broker role."""
        return self._with_broker.listening.server

    @property
    def background(self) -> Background:
        return self._with_broker.background

    @property
    def _with_broker(self) -> BrokerRole:
        assert self.broker_role is not None, "the node has no broker role"
        return self.broker_role

    # Stopping

    async def stop(self, *, hands_over: bool = True) -> None:
        """Finishes requests in progress, flushes, and writes the files that make the next start fast. Without
        `hands_over` other brokers aren't waited for to take over leadership: they stop, too."""
        broker_role, controller_role = self.broker_role, self.controller_role
        if broker_role is not None:
            await broker_role.stop_serving(hands_over=hands_over)
            await broker_role.finish()
        await self._upkeep.stop()
        if controller_role is not None:
            controller_role.probes.stop()
        await self._channels.close()
        # While its listener is open: the other voters send it the next leader.
        await self.quorum.finish()
        if controller_role is not None:
            await controller_role.listening.server.stop(STOP_GRACE_S)
        if broker_role is not None:
            broker_role.close()
        self.quorum.close()
        self._metadata_disk.close()


def _member(
    config: BrokerConfig,
    consent: StartConsent,
    dirs: LogDirs,
    listening: Listening,
    log: DiskLog,
    loader: Loader,
    network: Network,
    clock: Clock,
    random: Random,
    failed: Callable[[Exception], None],
) -> Member:
    """Starts this node's member of the metadata quorum. Loads the log into `loader`."""
    voters = configured_voters(config, log, accept_loss=consent.accept_metadata_loss)
    replica = replica_config(config, dirs.cluster_id, dirs.metadata_id, listening.addresses, log, voters)
    peers = PeerConnections(config.node_id, replica.quorum, client_tls(config, config.quorum.listener), network, random)
    member = Member(replica, log, loader.image.covers.offset, voters, peers, clock, random, failed)
    # The first of all listeners: committed changes take effect here before the controller answers.
    member.on_commit(loader.committed)
    member.on_snapshot(loader.install)
    return member


class _Channels(NamedTuple):
    """The channels to the active controller. Heartbeats have their own connection: other requests may take long, and a
    broken connection signals the controller that the broker has died."""

    requests: RemoteChannel
    heartbeats: RemoteChannel

    async def close(self) -> None:
        await self.requests.close()
        await self.heartbeats.close()


def _channels(
    config: BrokerConfig, member: Member, controller_role: ControllerRole | None, network: Network, random: Random
) -> _Channels:
    local = None if controller_role is None else controller_role.channel

    def locate() -> ActiveController | None:
        if local is not None and member.leader.leader_id == config.node_id:
            return ActiveController(config.node_id, None)
        found = member.leader_endpoint
        if found is None or found[0] == config.node_id:
            return None
        return ActiveController(found[0], Address(found[1].host, found[1].port))

    def channel(purpose: str) -> RemoteChannel:
        settings = replace(
            peer_settings(config, config.quorum.listener, f"{purpose}-{config.node_id}"),
            # The channel has its own back-off, shorter if there is another controller.
            reconnect_backoff_ms=0,
            reconnect_backoff_max_ms=0,
        )
        return RemoteChannel(locate, local, lambda: Peer(network, settings, random))

    channels = _Channels(channel("controller"), channel("heartbeat"))

    def leader_changed(_leader: LeaderAndEpoch) -> None:
        channels.requests.changed()
        channels.heartbeats.changed()

    member.on_leader_change(leader_changed)
    return channels


def _set_limits(server: Server, config: BrokerConfig) -> None:
    server.limits = limits_of(config)


async def _activated(loader: Loader, halt: Halt) -> None:
    """Returns once the cluster's features are known. A new cluster has none until its first controller has written
    them, and before that a node cannot check that it supports them."""
    if loader.image.features:
        return
    activation = _Activation(asyncio.Event())
    loader.subscribe(activation)
    waits = [asyncio.ensure_future(event.wait()) for event in (activation.seen, halt.stopped)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if halt.failure is not None:
        raise halt.failure


class _Activation(NamedTuple):
    """A publisher that waits for the first features."""

    seen: asyncio.Event

    def apply(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        if image.features:
            self.seen.set()


def _check_features(image: MetadataImage) -> None:
    """Stops at features that a newer release has finalized, as Kafka does."""
    problem = unsupported_feature(image.features)
    if problem is not None:
        raise CannotStart(
            f"the metadata in this directory is of a newer release: {problem}. Use a release that supports it, or "
            "downgrade the feature there first (kafka-features downgrade)"
        )
    unserved = sorted(f"{name} {level}" for name, level in image.features.items() if name in TOLERATED)
    if unserved:
        level = logging.WARNING if SHARE_STATE_TOPIC in image.topics else logging.INFO
        _log.log(level, "The cluster has features that are not served here: %s", ", ".join(unserved))


def _metadata_log_config(config: BrokerConfig) -> MetadataLogConfig:
    return MetadataLogConfig(
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        segment_ms=config.integer("metadata.log.segment.ms"),
        max_record_bytes_between_snapshots=config.integer("metadata.log.max.record.bytes.between.snapshots"),
        max_snapshot_interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
        max_retention_bytes=config.integer("metadata.max.retention.bytes"),
        max_retention_ms=config.integer("metadata.max.retention.ms"),
    )
