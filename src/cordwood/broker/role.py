"""The broker role of a node: the broker, its background work, and the server of the broker listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from cordwood.config.network.serving import Listening
from cordwood.config.topic import TopicConfigs
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.dirs.directory import LogDirectory
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import Handler, served_versions, with_unstable_versions
from cordwood.net.gate import Gate
from cordwood.net.pipeline import Pipeline, Shortcut
from cordwood.replica.replicas import Replicas
from cordwood.replica.strays import put_aside, unknown_partitions
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.produce import ProduceRequest

from .background import Background
from .broker import Broker
from .controller.channel import ControllerChannel
from .controller.directory_events import DirectoryEvents
from .controller.isr_changes import IsrChanges
from .controller.lifecycle import Lifecycle
from .controller.remote_channel import RemoteChannel
from .coordination.heartbeat_shortcut import HeartbeatShortcut
from .handlers import HANDLERS
from .produce.shortcut import ProduceShortcut
from .start.consent import StartConsent, check_strays
from .start.log_dirs import LogDirs

# How long a stop waits for requests in progress.
STOP_GRACE_S = 10.0


class BrokerRole:
    def __init__(
        self,
        broker: Broker,
        pipeline: Pipeline[Broker],
        listening: Listening,
        background: Background,
        directory_events: DirectoryEvents,
        lifecycle: Lifecycle,
    ) -> None:
        self.broker = broker
        self.pipeline = pipeline
        self.listening = listening
        self.background = background
        self._directory_events = directory_events
        self._lifecycle = lifecycle

    @classmethod
    async def start(
        cls,
        node_config: NodeConfig,
        dirs: LogDirs,
        controller: ControllerChannel,
        heartbeats: RemoteChannel,
        log: MetadataLog,
        loader: Loader,
        failed: Callable[[DiskError], None],
        halt: Callable[[Exception], None],
        consent: StartConsent,
        listening: Listening,
        gate: Gate,
        *,
        network: Network,
        clock: Clock,
        random: Random,
    ) -> BrokerRole:
        """Opens the logs and joins the cluster, with the addresses of `listening`; connections are accepted from
        `accept` on. Raises `CannotStart` and `DiskError`. `failed` is called for a directory that the node cannot work
        without, `halt` for any other fatal failure."""
        config = node_config.current
        topic_configs = TopicConfigs(config)
        directories = LogDirectories(
            [
                LogDirectory(
                    disk,
                    lambda topic: topic_configs.of(topic).log,
                    clock,
                    random,
                    producer_expiration_ms=config.integer("producer.id.expiration.ms"),
                    directory_id=directory_id,
                )
                for disk, directory_id in zip(dirs.disks, dirs.broker_ids, strict=True)
            ]
        )
        lifecycle = Lifecycle(node_config, dirs.cluster_id, heartbeats, loader, directories, random, halt)
        heartbeats.on_interruption(lifecycle.beat)
        events = DirectoryEvents(node_config, directories, lifecycle, controller, dirs.metadata.root, failed, random)
        heartbeats.on_interruption(events.wake)
        isr_changes = IsrChanges(config.node_id, lambda: lifecycle.epoch, controller, random)
        heartbeats.on_interruption(isr_changes.wake)
        replicas = Replicas(
            config.node_id,
            directories,
            topic_configs,
            clock,
            config.integer("replica.lag.time.max.ms"),
            config.integer("replica.fetch.backoff.ms"),
            counts_traffic=gate.measures is not None,
            on_offline=events.went_offline,
            on_placed=events.placed,
            on_isr_proposal=isr_changes.propose,
        )
        handlers = with_unstable_versions(
            [handler for handler in HANDLERS if "broker" in handler.listeners], config.flag
        )
        broker = Broker(
            node_config,
            topic_configs,
            dirs.cluster_id,
            controller,
            log,
            lifecycle,
            replicas,
            isr_changes,
            network,
            clock,
            random,
            served_versions(handlers),
        )
        # Without a pause in between, so that the broker misses no committed change.
        image = loader.image
        broker.load(image)
        _put_strays_aside(directories, image, log, config.node_id, consent)
        directories.open()
        events.opened()
        replicas.load(image)
        loader.subscribe(broker)

        pipeline = broker_pipeline(broker, handlers, gate)
        await lifecycle.register(listening.addresses)
        await events.registered()
        await lifecycle.unfence()
        await events.joined()
        role = cls(broker, pipeline, listening, Background(broker), events, lifecycle)
        role.background.start()
        broker.coordinators.start()
        broker.partition_verifier.apply(broker.image)
        broker.fetchers.start()
        broker.moves.resume()
        return role

    def accept(self) -> None:
        self.listening.server.accept(self.pipeline)

    # Stopping, in this order

    async def stop_serving(self, *, hands_over: bool = True) -> None:
        """Finishes requests in progress, after other brokers have taken over leadership."""
        if hands_over:
            await self._lifecycle.shut_down()
        stopping = asyncio.get_running_loop().create_task(self.listening.server.stop(STOP_GRACE_S))
        # Once no request can start, waiting fetches will get no more data.
        await asyncio.sleep(0)
        for partition in self.broker.replicas:
            partition.expire_watchers()
        await stopping

    async def finish(self) -> None:
        """Ends background work, and the communication with the controller."""
        await self.broker.coordinators.stop()
        await self.broker.partition_verifier.close()
        await self.broker.fetchers.stop()
        await self.broker.isr_changes.stop()
        await self.broker.moves.finish()
        await self.background.stop()
        await self.broker.replicas.flusher.finish()
        await self._directory_events.finish()
        await self._lifecycle.finish()

    def close(self) -> None:
        """Flushes, and writes the files that make the next start fast."""
        self.broker.replicas.directories.close(self.broker.epoch)


def broker_pipeline(broker: Broker, handlers: Iterable[Handler[Broker]], gate: Gate) -> Pipeline[Broker]:
    """Adds a broker's fast paths."""
    heartbeats = HeartbeatShortcut(broker, gate)
    shortcuts: dict[int, Shortcut] = {
        ProduceRequest.api_key: ProduceShortcut(broker, gate),
        HeartbeatRequest.api_key: heartbeats,
        ConsumerGroupHeartbeatRequest.api_key: heartbeats,
    }
    return Pipeline(broker, handlers, gate, broker.replicas.disk_failed, shortcuts)


def _put_strays_aside(
    directories: LogDirectories, image: MetadataImage, log: MetadataLog, broker_id: int, consent: StartConsent
) -> None:
    """Sets aside partitions that the metadata does not know, before anything is opened."""
    directories.find()
    unknown = unknown_partitions(directories, image, broker_id)
    if unknown:
        deleted = log.deleted_topics()
        strays = [found for found in unknown if found.topic_id not in deleted]
        check_strays(strays, image, broker_id, consent, was_cut=log.was_cut_for_good)
        put_aside(directories, unknown, deleted)
