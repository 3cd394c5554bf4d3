"""A node: a process with the controller role, or with the controller and the broker role, from its configuration to a
clean stop.

    node = await Node.start(
        config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(), open_disk=LocalDisk
    )
    node.bootstrap                      # "127.0.0.1:9092"
    await node.stopped.wait()           # only if a disk fails that it cannot be without: `failure` says which
    await node.stop()

Everything that it touches of the world is handed in: the simulator runs this very code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from cordwood.broker.background import Background
from cordwood.broker.broker import Broker
from cordwood.broker.dispatch import BrokerDispatch
from cordwood.broker.log_dirs import CannotStart as CannotStart
from cordwood.broker.log_dirs import take_directories
from cordwood.broker.role import STOP_GRACE_S, BrokerRole
from cordwood.broker.start_consent import StartConsent
from cordwood.config.broker import BrokerConfig
from cordwood.config.listener_tls import ListenerTls
from cordwood.config.serving import limits_of, listen
from cordwood.controller.quorum_of_one import QuorumOfOne
from cordwood.controller.role import ControllerRole
from cordwood.controller.upkeep import Upkeep
from cordwood.metadata.bootstrap import read_bootstrap
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.features import TOLERATED, unsupported_feature
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.log import MetadataLogConfig, SingleNodeLog, load
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.server import Server
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal

_log = logging.getLogger(__name__)

# Only where share groups were used.
SHARE_STATE_TOPIC = "__share_group_state"


class Halt:
    """Why a node cannot go on, once it cannot. `stopped` is set then."""

    def __init__(self, stopped: asyncio.Event) -> None:
        self.failure: DiskError | None = None
        self.stopped = stopped

    def fail(self, error: DiskError) -> None:
        """A node without its metadata log, or without any log directory, cannot go on."""
        if self.failure is None:
            self.failure = error
            _log.critical("the node stops, since it cannot go on without this directory: %s", error)
            self.stopped.set()


class Node:
    """A node that has started, see `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        halt: Halt,
        metadata_disk: Disk,
        quorum: QuorumOfOne,
        upkeep: Upkeep,
        controller_role: ControllerRole,
        broker_role: BrokerRole | None,
    ) -> None:
        self.config = config
        self.controller_role = controller_role
        # None with process.roles=controller.
        self.broker_role = broker_role
        # Where each listener is reached, by its name.
        self.addresses: dict[str, Address] = {
            **(broker_role.listening.addresses if broker_role is not None else {}),
            **controller_role.listening.addresses,
        }
        self._halt = halt
        self._metadata_disk = metadata_disk
        self._quorum = quorum
        self._upkeep = upkeep

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
        stopped: asyncio.Event | None = None,
    ) -> Node:
        """Returns a node that takes requests. Raises `CannotStart`, `CannotListen`, `TlsError`, `DiskError`. `stopped`
        is set when the node cannot go on."""
        opened: list[Disk] = []

        def open_and_note(root: str) -> Disk:
            opened.append(open_disk(root))
            return opened[-1]

        halt = Halt(asyncio.Event() if stopped is None else stopped)
        try:
            return await cls._start(config, halt, consent or StartConsent(), network, clock, random, open_and_note)
        except BaseException as error:
            # The process may live on, and want the directories that are locked.
            for disk in opened:
                disk.close()
            if halt.failure is not None and isinstance(error, CannotStart | Refusal):
                raise halt.failure from error
            if isinstance(error, InvalidMetadata):
                raise CannotStart(str(error)) from error
            raise

    @classmethod
    async def _start(
        cls,
        config: BrokerConfig,
        halt: Halt,
        consent: StartConsent,
        network: Network,
        clock: Clock,
        random: Random,
        open_disk: Callable[[str], Disk],
    ) -> Node:
        roles = config.items("process.roles")
        if "controller" not in roles:
            raise CannotStart(
                "process.roles=broker needs a controller on another node, which is not supported yet: "
                "set process.roles=broker,controller"
            )
        taken = take_directories(config, open_disk, random, accept_metadata_loss=consent.accept_metadata_loss)
        listeners, tls = config.listeners, ListenerTls(config)
        # Before anything is formatted: a port may be taken. Peers wait until the node has started.
        for_brokers = await listen(network, config, listeners.broker_endpoints, tls)
        servers = [for_brokers.server]
        try:
            for_controllers = await listen(network, config, listeners.controller_endpoints, tls)
            servers.append(for_controllers.server)
            dirs = taken.format(random, clock.now_ms())
            log = SingleNodeLog.open(
                dirs.metadata,
                config.node_id,
                _metadata_log_config(config),
                random,
                now_ms=clock.now_ms(),
                accept_loss=consent.accept_metadata_loss,
            )
            loader = load(log)
            _check_features(loader.image)
            quorum = QuorumOfOne(log, clock, halt.fail)
            # In this order: what is committed is in effect here before the controller answers.
            quorum.on_commit(loader.committed)
            node_config = NodeConfig(config, loader.image)
            loader.subscribe(node_config)
            bootstrap = [] if loader.image.features else read_bootstrap(dirs.metadata)
            controller_role = await ControllerRole.start(
                node_config, dirs.cluster_id, quorum, loader, bootstrap, for_controllers, clock=clock, random=random
            )
            broker_role = None
            if "broker" in roles:

                def failed(error: DiskError) -> None:
                    if error.root == dirs.metadata.root:
                        quorum.fail(error)
                    halt.fail(error)

                broker_role = await BrokerRole.start(
                    node_config,
                    dirs,
                    controller_role.channel,
                    quorum,
                    loader,
                    failed,
                    consent,
                    for_brokers,
                    clock=clock,
                    random=random,
                )
        except BaseException:
            for server in servers:
                await server.stop(0)
            raise
        for server in servers:
            node_config.subscribe(partial(_set_limits, server))
        node_config.subscribe(tls.reload)
        upkeep = Upkeep(quorum, loader, clock, quorum.fail)
        node = cls(config, halt, dirs.metadata, quorum, upkeep, controller_role, broker_role)
        controller_role.accept()
        if broker_role is not None:
            broker_role.accept()
        return node

    # While it runs

    @property
    def bootstrap(self) -> str:
        """For clients: where the first listener is reached."""
        listeners = self.config.listeners
        endpoints = listeners.controller_endpoints if self.broker_role is None else listeners.broker_endpoints
        return str(self.addresses[endpoints[0].listener])

    @property
    def stopped(self) -> asyncio.Event:
        """Set when the node cannot go on."""
        return self._halt.stopped

    @property
    def failure(self) -> DiskError | None:
        return self._halt.failure

    @property
    def servers(self) -> list[Server]:
        """Of its roles, the broker's first."""
        broker_role = self.broker_role
        servers = [self.controller_role.listening.server]
        return servers if broker_role is None else [broker_role.listening.server, *servers]

    @property
    def broker(self) -> Broker:
        return self._with_broker.broker

    @property
    def dispatch(self) -> BrokerDispatch:
        return self._with_broker.dispatch

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

    async def stop(self) -> None:
        """Finishes what is in work, flushes, and writes what makes the next start quick."""
        broker_role = self.broker_role
        stopping = asyncio.get_running_loop().create_task(self.controller_role.listening.server.stop(STOP_GRACE_S))
        if broker_role is not None:
            await broker_role.stop_serving()
            await stopping
            await broker_role.finish()
        else:
            await stopping
        await self._upkeep.stop()
        await self._quorum.finish()
        if broker_role is not None:
            broker_role.close()
        self._quorum.close()
        self._metadata_disk.close()


def _set_limits(server: Server, config: BrokerConfig) -> None:
    server.limits = limits_of(config)


def _check_features(image: MetadataImage) -> None:
    """Of features that a newer release has finalized nothing is known, as little as to Kafka, which stops as well."""
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
