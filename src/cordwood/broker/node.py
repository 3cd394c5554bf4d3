"""A node: a broker and a controller in one process, from its configuration to a clean stop.

    node = Node(config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(), open_disk=LocalDisk)
    await node.start()
    node.bootstrap                      # "127.0.0.1:9092"
    await node.stopped.wait()           # only if a disk fails that it cannot be without: `failure` says which
    await node.stop()

Everything that it touches of the world is handed in: the simulator runs this very code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cordwood.config.broker import BrokerConfig
from cordwood.config.definitions.broker import BROKER
from cordwood.config.topic import TopicConfigs
from cordwood.log.directories import LogDirectories
from cordwood.log.directory import LogDirectory
from cordwood.metadata.bootstrap import activation_records, bootstrap_version, read_bootstrap
from cordwood.metadata.controller.brokers import broker_heartbeat, register_broker, register_controller
from cordwood.metadata.controller.decision import new_uuid
from cordwood.metadata.controller.elections import leaders_recovered
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.log import MetadataLogConfig, SingleNodeLog, load
from cordwood.net.server import Server
from cordwood.net.serving import Limits
from cordwood.replica.replicas import Replicas
from cordwood.replica.strays import put_aside, unknown_partitions
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.network import Address, Network, SocketOptions
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

from .background import Background
from .broker import Broker
from .controller import Controller
from .directory_events import DirectoryEvents
from .dispatch import Dispatch
from .handlers import HANDLERS
from .listener_tls import server_tls
from .log_dirs import CannotStart as CannotStart
from .log_dirs import LogDirs, take_directories
from .registration import broker_registration, controller_registration
from .registry import with_unstable_versions
from .start_consent import StartConsent, check_strays

_log = logging.getLogger(__name__)

# How long requests in work may take at a stop.
_STOP_GRACE_S = 10.0
# Two requests of the largest batches that topics take by default.
_BULK_RECEIVE_BYTES = 1 << 21


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        open_disk: Callable[[str], Disk],
        consent: StartConsent | None = None,
    ) -> None:
        self.config = config
        self._consent = consent or StartConsent()
        self.failure: DiskError | None = None
        # Set when the node cannot go on.
        self.stopped = asyncio.Event()
        # Where each listener is reached, by its name.
        self.addresses: dict[str, Address] = {}
        self._network = network
        self._clock = clock
        self._random = random
        self._open_disk = open_disk
        self.broker: Broker
        self.dispatch: Dispatch
        self.server: Server
        self.background: Background
        self._directory_events: DirectoryEvents
        self._metadata_disk: Disk
        self._metadata_log: SingleNodeLog
        self._directories: LogDirectories

    @property
    def bootstrap(self) -> str:
        """For clients: where the first listener is reached."""
        name = self.config.listeners.broker_endpoints[0].listener
        return str(self.addresses[name])

    # Starting

    async def start(self) -> None:
        """Raises `CannotStart`, `CannotListen`, `TlsError`, `DiskError`. After it the node takes requests."""
        opened: list[Disk] = []

        def open_disk(root: str) -> Disk:
            opened.append(self._open_disk(root))
            return opened[-1]

        try:
            await self._start(open_disk)
        except BaseException:
            # The process may live on, and want the directories that are locked.
            for disk in opened:
                disk.close()
            raise

    async def _start(self, open_disk: Callable[[str], Disk]) -> None:
        taken = take_directories(
            self.config, open_disk, self._random, accept_metadata_loss=self._consent.accept_metadata_loss
        )
        self.server = Server(self._network, limits=limits_of(self.config))
        # The port is needed to join, and clients are not to find a broker that has not joined.
        self.server.hold()
        try:
            await self._listen()
            await self._serve(taken.format(self._random, self._clock.now_ms()))
        except InvalidMetadata as error:
            await self.server.stop(0)
            raise CannotStart(str(error)) from error
        except BaseException:
            await self.server.stop(0)
            raise

    async def _serve(self, dirs: LogDirs) -> None:
        self._metadata_disk = dirs.metadata
        self._metadata_log = SingleNodeLog.open(
            dirs.metadata,
            self.config.node_id,
            self._metadata_config(),
            self._random,
            now_ms=self._clock.now_ms(),
            accept_loss=self._consent.accept_metadata_loss,
        )
        image = self._load_metadata(dirs.metadata)

        topic_configs = TopicConfigs(self.config)
        self._directories = LogDirectories(
            [
                LogDirectory(
                    disk,
                    lambda topic: topic_configs.of(topic).log,
                    self._clock,
                    self._random,
                    producer_expiration_ms=self.config.integer("producer.id.expiration.ms"),
                    directory_id=directory_id,
                )
                for disk, directory_id in zip(dirs.disks, dirs.broker_ids, strict=True)
            ]
        )
        replicas = Replicas(self.config.node_id, self._directories, topic_configs, self._clock)
        broker = self.broker = Broker(self.config, topic_configs, dirs.cluster_id, replicas, self._clock, self._random)
        broker.controller = Controller(self._metadata_log, image, self._clock, broker.apply, self._fail)
        self._directory_events = DirectoryEvents(broker, dirs.metadata.root)
        broker.load(image)
        self._find_partitions(image)
        self._directories.open()
        replicas.load(image)

        handlers = with_unstable_versions(HANDLERS, self.config)
        dispatch = self.dispatch = Dispatch(broker, handlers, self.config.listeners.controllers)
        broker.served_versions = dispatch.served_versions
        self.server.handler = dispatch
        self._set_limits(broker.config)
        broker.on_config.append(self._set_limits)
        await self._join(dirs)
        await self._directory_events.joined()
        self.background = Background(broker, self._metadata_log)
        self.background.start()
        broker.coordinators.start()
        broker.moves.resume()
        self.server.accept()

    def _metadata_config(self) -> MetadataLogConfig:
        config = self.config
        return MetadataLogConfig(
            segment_bytes=config.integer("metadata.log.segment.bytes"),
            segment_ms=config.integer("metadata.log.segment.ms"),
            max_record_bytes_between_snapshots=config.integer("metadata.log.max.record.bytes.between.snapshots"),
            max_snapshot_interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
            max_retention_bytes=config.integer("metadata.max.retention.bytes"),
            max_retention_ms=config.integer("metadata.max.retention.ms"),
        )

    def _load_metadata(self, disk: Disk) -> MetadataImage:
        """All that is committed. The first controller of a cluster writes what the cluster begins with."""
        log = self._metadata_log
        image = load(log).image
        if image.features:
            return image
        bootstrap = read_bootstrap(disk)
        now_ms = self._clock.now_ms()
        records = activation_records(bootstrap, self.config.integer("min.insync.replicas"))
        log.append(records, bootstrap_version(bootstrap), now_ms)
        log.commit(now_ms)
        return load(log).image

    def _find_partitions(self, image: MetadataImage) -> None:
        """Puts aside what the metadata does not know, before anything is opened."""
        self._directories.find()
        unknown = unknown_partitions(self._directories, image, self.config.node_id)
        if unknown:
            deleted = self._metadata_log.deleted_topics()
            strays = [found for found in unknown if found.topic_id not in deleted]
            check_strays(strays, image, self.config.node_id, self._consent, was_cut=self._metadata_log.was_cut)
            put_aside(self._directories, unknown, deleted)

    async def _listen(self) -> None:
        receive_bytes = self.config.integer("socket.receive.buffer.bytes")
        # Who has chosen a size has it everywhere. Kafka's own configuration files say the default.
        is_chosen = receive_bytes != BROKER["socket.receive.buffer.bytes"].default
        options = SocketOptions(
            send_buffer_bytes=self.config.integer("socket.send.buffer.bytes"),
            receive_buffer_bytes=receive_bytes,
            listen_backlog=self.config.integer("socket.listen.backlog.size"),
            bulk_receive_buffer_bytes=-1 if is_chosen else _BULK_RECEIVE_BYTES,
        )
        advertised = {end.listener: end for end in self.config.listeners.advertised}
        for endpoint in self.config.listeners.bound:
            tls = server_tls(self.config, endpoint)
            bound = await self.server.listen(endpoint.listener, endpoint.host or "", endpoint.port, tls, options)
            told = advertised.get(endpoint.listener, endpoint)
            self.addresses[endpoint.listener] = Address(told.host or "localhost", told.port or bound.port)

    async def _join(self, dirs: LogDirs) -> None:
        """Registers this incarnation of the broker and unfences it: from here on it leads its partitions."""
        broker = self.broker
        clean_epochs = {directory.last_broker_epoch for directory in self._directories.online}
        # Only if all of them were stopped by the same, clean stop.
        previous_epoch = clean_epochs.pop() if len(clean_epochs) == 1 else -1
        online = [directory.id for directory in self._directories.online]
        registration = broker_registration(
            self.config, dirs.cluster_id, self.addresses, online, previous_epoch, new_uuid(self._random)
        )
        of_controller = controller_registration(self.config, self.addresses, new_uuid(self._random))
        controller = broker.controller
        await controller.decide(lambda image: register_controller(image, of_controller))
        registered = await controller.decide(
            lambda image: register_broker(
                image,
                registration,
                broker.defaults,
                cluster_id=dirs.cluster_id,
                next_offset=controller.log.end_offset,
            )
        )
        if registered.error_code:
            raise CannotStart(f"the broker was not registered: {ErrorCode(registered.error_code).name}")
        broker.epoch = registered.broker_epoch
        await self._directory_events.registered()
        heartbeat = BrokerHeartbeatRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            current_metadata_offset=controller.log.end_offset,
            want_fence=False,
        )
        await controller.decide(lambda image: broker_heartbeat(image, heartbeat, broker.defaults))
        await controller.decide(lambda image: leaders_recovered(image, broker.id))

    # While it runs

    def _set_limits(self, config: BrokerConfig) -> None:
        self.server.limits = limits_of(config)

    def _fail(self, error: DiskError) -> None:
        """A node without its metadata log, or without any log directory, cannot go on."""
        if self.failure is None:
            self.failure = error
            _log.critical("the node stops, since it cannot go on without this directory: %s", error)
            self.stopped.set()

    # Stopping

    async def stop(self) -> None:
        """Finishes what is in work, flushes, and writes what makes the next start quick."""
        stopping = asyncio.get_running_loop().create_task(self.server.stop(_STOP_GRACE_S))
        # Once nothing new is begun, readers that wait for more need wait no longer.
        await asyncio.sleep(0)
        for partition in self.broker.replicas:
            partition.expire_watchers()
        await stopping
        self.broker.coordinators.stop()
        await self.broker.moves.finish()
        await self.background.stop()
        await self.broker.replicas.flusher.finish()
        await self._directory_events.finish()
        await self.broker.controller.finish()
        self._directories.close(self.broker.epoch)
        if self.failure is None:
            try:
                self._metadata_log.close(self._clock.now_ms())
            except DiskError as error:
                # What is committed is on the disk already; the next start takes longer.
                self._fail(error)
        self._metadata_disk.close()


def limits_of(config: BrokerConfig) -> Limits:
    overrides = [entry.rpartition(":") for entry in config.text("max.connections.per.ip.overrides").split(",") if entry]
    return Limits(
        request_max_bytes=config.integer("socket.request.max.bytes"),
        max_requests_in_work=config.integer("queued.max.requests"),
        idle_ms=config.integer("connections.max.idle.ms"),
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides={host.strip(): int(count) for host, _, count in overrides},
    )
