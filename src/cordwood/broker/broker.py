"""What handlers work on: the committed metadata, the configuration, the partitions, the way to the controller."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cordwood.config.broker import BrokerConfig
from cordwood.config.topic import TopicConfigs
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import Endpoint, MetadataImage, ResourceType
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.replica.directory_moves import DirectoryMoves
from cordwood.replica.partition import Partition
from cordwood.replica.replicas import Replicas
from cordwood.runtime.clock import Clock
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Versions

from .controller_channel import ControllerChannel
from .coordinators import Coordinators
from .fetch_sessions import FetchSessions
from .lifecycle import Lifecycle
from .producer_ids import ProducerIds
from .topic_news import log_topic_news
from .transactional_produce import TransactionalProduce

_log = logging.getLogger(__name__)


class Broker:
    """A publisher of the node's loader: `apply` is the one place where the state of a broker changes with the
    metadata."""

    def __init__(
        self,
        node_config: NodeConfig,
        topic_configs: TopicConfigs,
        cluster_id: str,
        controller: ControllerChannel,
        metadata_log: MetadataLog,
        lifecycle: Lifecycle,
        replicas: Replicas,
        clock: Clock,
        random: Random,
        served_versions: Mapping[int, Versions],
    ) -> None:
        config = node_config.current
        self.id = config.node_id
        self.cluster_id = cluster_id
        self.controller = controller
        self.served_versions = served_versions
        # With what was set dynamically; replaced when that changes.
        self.config = config
        self.node_config = node_config
        self.topic_configs = topic_configs
        self.replicas = replicas
        self.clock = clock
        self.random = random
        self.image = MetadataImage()
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"), random)
        self.producer_ids = ProducerIds(self)
        self.coordinators = Coordinators(self)
        self.groups = self.coordinators.groups
        self.transactions = self.coordinators.transactions
        self.transactional_produce = TransactionalProduce(self)
        self.moves = DirectoryMoves(
            replicas, clock, lambda: self.config.integer("replica.alter.log.dirs.io.max.bytes.per.second")
        )
        self._metadata_log = metadata_log
        self._lifecycle = lifecycle
        node_config.subscribe(self._configure)

    @property
    def epoch(self) -> int:
        """Of this start of the node; -1 until it is registered."""
        return self._lifecycle.epoch

    @property
    def kraft_version(self) -> int:
        return self._metadata_log.quorum.kraft_version

    # The metadata

    def load(self, image: MetadataImage) -> None:
        """At a start: all that is committed."""
        self.image = image
        _warn_of_missing_protection(image)
        for resource, settings in image.configs.items():
            if resource.type == ResourceType.TOPIC:
                self.topic_configs.set_topic(resource.name, settings)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Acts on what a committed change is about. Configuration comes first: new partitions begin with it. The
        node's own has changed by then."""
        self.image = image
        for resource in delta.configs:
            if resource.type == ResourceType.TOPIC:
                self.topic_configs.set_topic(resource.name, image.config(resource))
        for resource in delta.configs:
            if resource.type == ResourceType.TOPIC:
                self.replicas.configure(resource.name)
        changes = delta.topics.replica_changes(self.id)
        self.replicas.apply(changes)
        self.coordinators.apply(changes, delta, image)
        log_topic_news(delta.topics)

    def _configure(self, config: BrokerConfig) -> None:
        self.config = config
        self.topic_configs.set_broker(config)
        self.replicas.configure_all()

    # Looking things up

    def topic_name(self, topic_id: Uuid) -> str | None:
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> Uuid | None:
        return self.image.topics.ids.get(name)

    def partition(self, topic: str, index: int) -> Partition | None:
        """A partition that this broker has a replica of."""
        return self.replicas.get(topic, index)

    def hosted(self, topic: str, index: int) -> Partition:
        """As `partition`; Refusal that says why there is none."""
        partition = self.replicas.get(topic, index)
        if partition is None:
            if self.image.topics.partition(topic, index) is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on broker {self.id}")
        return partition

    def rack(self, broker_id: int) -> str | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def any_broker(self, listener: str) -> int:
        """The id of a broker that clients of a listener can reach; -1 if there is none."""
        endpoints = list(self.endpoints(listener))
        return endpoints[self.random.below(len(endpoints))] if endpoints else -1

    def endpoints(self, listener: str) -> dict[int, Endpoint]:
        """Where clients of a listener reach each broker that is up; one without such a listener is left out."""
        found = {}
        for broker in self.image.brokers.values():
            endpoint = None if broker.fenced else broker.endpoint(listener)
            if endpoint is not None:
                found[broker.id] = endpoint
        return found


def _warn_of_missing_protection(image: MetadataImage) -> None:
    """Kafka may have written the metadata, where ACLs and quotas were enforced."""
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
