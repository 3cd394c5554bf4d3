"""The broker role of a node: its broker, what that does in the background, and the server of the broker listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordwood.config.serving import Listening
from cordwood.config.topic import TopicConfigs
from cordwood.log.directories import LogDirectories
from cordwood.log.directory import LogDirectory
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import served_versions, with_unstable_versions
from cordwood.replica.replicas import Replicas
from cordwood.replica.strays import put_aside, unknown_partitions
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import Random

from .background import Background
from .broker import Broker
from .controller_channel import ControllerChannel
from .directory_events import DirectoryEvents
from .dispatch import BrokerDispatch
from .handlers import HANDLERS
from .lifecycle import Lifecycle
from .log_dirs import LogDirs
from .start_consent import StartConsent, check_strays

# How long requests in work may take at a stop.
STOP_GRACE_S = 10.0


class BrokerRole:
    def __init__(
        self,
        broker: Broker,
        dispatch: BrokerDispatch,
        listening: Listening,
        background: Background,
        directory_events: DirectoryEvents,
    ) -> None:
        self.broker = broker
        self.dispatch = dispatch
        self.listening = listening
        self.background = background
        self._directory_events = directory_events

    @classmethod
    async def start(
        cls,
        node_config: NodeConfig,
        dirs: LogDirs,
        controller: ControllerChannel,
        log: MetadataLog,
        loader: Loader,
        failed: Callable[[DiskError], None],
        consent: StartConsent,
        listening: Listening,
        *,
        clock: Clock,
        random: Random,
    ) -> BrokerRole:
        """Opens the logs and joins the cluster, by where `listening` is reached; connections are accepted with
        `accept`. Raises `CannotStart` and `DiskError`. `failed` is told of a directory that the node cannot go on
        without."""
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
        lifecycle = Lifecycle(node_config, dirs.cluster_id, controller, loader, directories, random)
        events = DirectoryEvents(node_config, directories, lifecycle, controller, dirs.metadata.root, failed)
        replicas = Replicas(
            config.node_id,
            directories,
            topic_configs,
            clock,
            config.integer("replica.lag.time.max.ms"),
            on_offline=events.went_offline,
            on_placed=events.placed,
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
            clock,
            random,
            served_versions(handlers),
        )
        # Without a pause in between: nothing is committed meanwhile that the broker would miss.
        image = loader.image
        broker.load(image)
        _put_strays_aside(directories, image, log, config.node_id, consent)
        directories.open()
        replicas.load(image)
        loader.subscribe(broker)

        dispatch = BrokerDispatch(broker, handlers)
        await lifecycle.register(listening.addresses)
        await events.registered()
        await lifecycle.unfence()
        await events.joined()
        role = cls(broker, dispatch, listening, Background(broker), events)
        role.background.start()
        broker.coordinators.start()
        broker.moves.resume()
        return role

    def accept(self) -> None:
        self.listening.server.accept(self.dispatch)

    # Stopping, in this order

    async def stop_serving(self) -> None:
        """Finishes the requests in work."""
        stopping = asyncio.get_running_loop().create_task(self.listening.server.stop(STOP_GRACE_S))
        # Once nothing new is begun, readers that wait for more need wait no longer.
        await asyncio.sleep(0)
        for partition in self.broker.replicas:
            partition.expire_watchers()
        await stopping

    async def finish(self) -> None:
        """Ends the work in the background, and says the last to the controller."""
        self.broker.coordinators.stop()
        await self.broker.moves.finish()
        await self.background.stop()
        await self.broker.replicas.flusher.finish()
        await self._directory_events.finish()

    def close(self) -> None:
        """Flushes, and writes what makes the next start quick."""
        self.broker.replicas.directories.close(self.broker.epoch)


def _put_strays_aside(
    directories: LogDirectories, image: MetadataImage, log: MetadataLog, broker_id: int, consent: StartConsent
) -> None:
    """Puts aside what the metadata does not know, before anything is opened."""
    directories.find()
    unknown = unknown_partitions(directories, image, broker_id)
    if unknown:
        deleted = log.deleted_topics()
        strays = [found for found in unknown if found.topic_id not in deleted]
        check_strays(strays, image, broker_id, consent, was_cut=log.was_cut)
        put_aside(directories, unknown, deleted)
