"""The dependencies of handlers: the committed metadata, the configuration, the partitions, the controller channel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from cordwood.config.broker import BrokerConfig
from cordwood.config.network.peer_settings import peer_settings
from cordwood.config.topic import TopicConfigs
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import Endpoint, MetadataImage, ResourceType
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.peers.peer import Peer
from cordwood.replica.directory_moves import DirectoryMoves
from cordwood.replica.fetcher import FetcherSettings
from cordwood.replica.fetchers import Fetchers
from cordwood.replica.leader import RegistrationChanged
from cordwood.replica.partition import Partition
from cordwood.replica.replicas import Replicas
from cordwood.replica.throttle import ReplicationThrottle
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Versions

from .controller.channel import ControllerChannel
from .controller.isr_changes import IsrChanges
from .controller.lifecycle import Lifecycle
from .coordination.coordinators import Coordinators
from .departures import Departures
from .fetch.sessions import FetchSessions
from .lost_leaders import LostLeaders
from .produce.guards import TransactionGuards
from .produce.partition_verifier import PartitionVerifier
from .produce.transactional import TransactionalProduce
from .topic_news import log_topic_news
from .transactions.producer_ids import ProducerIds

_log = logging.getLogger(__name__)

_LEADER_RATE = "leader.replication.throttled.rate"
_FOLLOWER_RATE = "follower.replication.throttled.rate"


class Broker:
    """A publisher of the node's loader: the broker's state changes with the metadata in `apply` only."""

    def __init__(
        self,
        node_config: NodeConfig,
        topic_configs: TopicConfigs,
        cluster_id: str,
        controller: ControllerChannel,
        metadata_log: MetadataLog,
        lifecycle: Lifecycle,
        replicas: Replicas,
        isr_changes: IsrChanges,
        network: Network,
        clock: Clock,
        random: Random,
        served_versions: Mapping[int, Versions],
    ) -> None:
        config = node_config.current
        self.id = config.node_id
        self.cluster_id = cluster_id
        self.controller = controller
        self.served_versions = served_versions
        # Includes dynamic settings; replaced when they change.
        self.config = config
        self.node_config = node_config
        self.topic_configs = topic_configs
        self.replicas = replicas
        self.network = network
        self.clock = clock
        self.random = random
        self.image = MetadataImage()
        self._departures = Departures(clock)
        self.lost_leaders = LostLeaders()
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"), random)
        self.producer_ids = ProducerIds(self)
        guards = TransactionGuards()
        self.coordinators = Coordinators(self, guards)
        self.groups = self.coordinators.groups
        self.transactions = self.coordinators.transactions
        self.partition_verifier = PartitionVerifier(self)
        self.transactional_produce = TransactionalProduce(self, self.partition_verifier, guards)
        self.moves = DirectoryMoves(
            replicas, clock, lambda: self.config.integer("replica.alter.log.dirs.io.max.bytes.per.second")
        )
        self.isr_changes = isr_changes
        self.leader_throttle = ReplicationThrottle(clock, config.integer(_LEADER_RATE))
        self.follower_throttle = ReplicationThrottle(clock, config.integer(_FOLLOWER_RATE))
        self.fetchers = self._new_fetchers(config)
        # Set when a metadata change has been applied, and replaced.
        self._applied = asyncio.Event()
        self._metadata_log = metadata_log
        self._lifecycle = lifecycle
        node_config.subscribe(self._configure)

    @property
    def epoch(self) -> int:
        """The epoch of this start of the node; -1 until it is registered."""
        return self._lifecycle.epoch

    @property
    def kraft_version(self) -> int:
        return self._metadata_log.quorum.kraft_version

    # The metadata

    def load(self, image: MetadataImage) -> None:
        """Loads all committed metadata at the start."""
        self.image = image
        _warn_of_missing_protection(image)
        for resource, settings in image.configs.items():
            if resource.type == ResourceType.TOPIC:
                self.topic_configs.set_topic(resource.name, settings)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a committed change. Configuration comes first, since new partitions use it; the node's own has
        changed already."""
        if self._lifecycle.is_superseded:
            # The metadata about this broker id concerns another incarnation.
            return
        self._departures.apply(delta, self.image, image)
        self.image = image
        for resource in delta.configs:
            if resource.type == ResourceType.TOPIC:
                self.topic_configs.set_topic(resource.name, image.config(resource))
        changes = delta.topics.replica_changes(self.id)
        self.replicas.apply(changes)
        for resource in delta.configs:
            topic = image.topics.get(resource.name) if resource.type == ResourceType.TOPIC else None
            if topic is not None:
                self.replicas.configure(topic.name, topic.partitions)
        self.fetchers.changed((*changes.deleted, *changes.leading, *changes.following))
        if delta.brokers:
            self.fetchers.brokers_changed()
            for broker_id in delta.brokers:
                self.replicas.broker_changed(RegistrationChanged(broker_id, self.registered_epoch(broker_id)))
        self.coordinators.apply(changes, delta, image)
        self.partition_verifier.apply(image)
        log_topic_news(delta.topics)
        self.lost_leaders.apply(delta)
        applied, self._applied = self._applied, asyncio.Event()
        applied.set()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Returns when the committed metadata meets a condition, such as a change requested from the controller, or on
        timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._applied.wait()
        except TimeoutError:
            pass

    def _new_fetchers(self, config: BrokerConfig) -> Fetchers:
        listener = config.listeners.inter_broker
        settings = peer_settings(config, listener, f"broker-{self.id}-fetcher")

        def address_of(broker_id: int) -> Address | None:
            broker = self.image.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(listener)
            return None if endpoint is None else Address(endpoint.host, endpoint.port)

        return Fetchers(
            FetcherSettings(
                self.id,
                config.integer("replica.fetch.wait.max.ms"),
                config.integer("replica.fetch.min.bytes"),
                config.integer("replica.fetch.max.bytes"),
                config.integer("replica.fetch.response.max.bytes"),
                config.integer("replica.socket.timeout.ms"),
            ),
            config.integer("num.replica.fetchers"),
            self.replicas,
            lambda: self.epoch,
            address_of,
            lambda: Peer(self.network, settings, self.random),
            self.clock,
            self.follower_throttle,
            self.lost_leaders,
        )

    def _configure(self, config: BrokerConfig) -> None:
        self.config = config
        self.topic_configs.set_broker(config)
        self.replicas.configure_all()
        self.leader_throttle.limit(config.integer(_LEADER_RATE))
        self.follower_throttle.limit(config.integer(_FOLLOWER_RATE))
        self.fetchers.resize(config.integer("num.replica.fetchers"))
        self.coordinators.configure(config)

    # Look-ups

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> Uuid | None:
        return self.image.topics.ids.get(name)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Returns a partition with a replica on this broker, if any."""
        return self.replicas.get(topic, index)

    def hosted(self, topic: str, index: int) -> Partition:
        """Like `partition`; raises Refusal with the reason if there is none."""
        partition = self.replicas.get(topic, index)
        if partition is None:
            if self.image.topics.partition(topic, index) is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on broker {self.id}")
        return partition

    def rack(self, broker_id: int) -> str | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def registered_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that may join in-sync sets; None while it is fenced, shutting down or not
        registered."""
        broker = self.image.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.is_active else None

    def named_controller(self, listener: str) -> int:
        """The broker to which clients should send administrative requests; -1 if none is reachable.

        Any broker will do, since all of them forward such requests. Kafka names a random one, which may have died a
        moment ago. This one is alive, and the client has a connection to it.
        """
        endpoints = list(self.endpoints(listener))
        if self.id in endpoints:
            return self.id
        return endpoints[self.random.below(len(endpoints))] if endpoints else -1

    def endpoints(self, listener: str) -> dict[int, Endpoint]:
        """The addresses of live brokers for clients of a listener; without brokers that lack the listener."""
        found = {}
        for broker in self.image.brokers.values():
            endpoint = None if broker.fenced else broker.endpoint(listener)
            if endpoint is not None:
                found[broker.id] = endpoint
        return found

    def named_endpoints(self, listener: str) -> dict[int, Endpoint]:
        """Like `endpoints`, including brokers that failed a moment ago."""
        found = self.endpoints(listener)
        for broker_id in self._departures.recent():
            broker = self.image.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(listener)
            if endpoint is not None:
                found[broker_id] = endpoint
        return found


def _warn_of_missing_protection(image: MetadataImage) -> None:
    """Warns about ACLs and quotas in metadata written by Kafka, which enforced them."""
    if image.acls:
        _log.warning(
            "The metadata has %d ACLs, and they are not enforced: every client may do everything (docs/security.md)",
            len(image.acls),
        )
    if image.client_quotas:
        _log.warning(
            "The metadata has quotas of %d users, clients or addresses, and they are not enforced (docs/security.md)",
            len(image.client_quotas),
        )
