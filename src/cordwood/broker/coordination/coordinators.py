"""The coordinators of a broker, and the topics that hold their state."""

from __future__ import annotations

import logging

from cordwood.broker.context import BrokerContext
from cordwood.broker.peers import BrokerPeers
from cordwood.broker.produce.guards import TransactionGuards
from cordwood.broker.transactions.marker_sender import MarkerSender
from cordwood.broker.transactions.marker_writer import MarkerWriter
from cordwood.config.broker import BrokerConfig
from cordwood.config.network.peer_settings import peer_settings
from cordwood.coordinator.coordinator import Coordinator
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.coordinator.transactions.shard_state import TransactionShardState
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.features import TRANSACTION_VERSION
from cordwood.metadata.image import ConfigResource, MetadataImage, ResourceType, Topics
from cordwood.metadata.topics_delta import ReplicaChanges
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreateTopicsRequest
from cordwood.wire.messages.write_txn_markers import WriteTxnMarkersRequest

from .topics import GROUP_TOPIC, TRANSACTION_TOPIC, coordinator_topic, partition_count, replication_factor_key

_log = logging.getLogger(__name__)

# How long to wait for a created topic to appear in this broker's metadata; clients retry anyway.
_CREATION_PATIENCE_S = 1.0


class Coordinators:
    """`groups` coordinates groups and their offsets, `transactions` transactional ids."""

    def __init__(self, broker: BrokerContext, guards: TransactionGuards) -> None:
        self._broker = broker
        # Partition counts of these topics, needed by every request.
        self._partition_counts: dict[str, tuple[Topics, int]] = {}
        self.groups: Coordinator[GroupShardState] = Coordinator(
            "group",
            GROUP_TOPIC,
            broker.replicas,
            broker.clock,
            new_state=lambda _index: GroupShardState(
                broker.clock,
                broker.random,
                lambda: broker.config,
                lambda: broker.image,
                lambda group_id: broker.image.config(ConfigResource(ResourceType.GROUP, group_id)),
            ),
            partition_count=lambda: self.partition_count(GROUP_TOPIC),
            timeout_ms=lambda: broker.config.integer("offsets.commit.timeout.ms"),
            load_buffer_bytes=lambda: broker.config.integer("offsets.load.buffer.size"),
            codec=lambda: Codec(broker.config.integer("offsets.topic.compression.codec")),
        )
        # The logged reasons why their topics could not be created.
        self._creation_errors: dict[str, ErrorCode] = {}
        self.marker_writer = MarkerWriter(broker, guards)
        self._marker_sender = _marker_sender(broker, self.marker_writer)
        self.transactions: Coordinator[TransactionShardState] = Coordinator(
            "transaction",
            TRANSACTION_TOPIC,
            broker.replicas,
            broker.clock,
            new_state=lambda _index: TransactionShardState(
                broker.clock, broker.config, _transaction_level(broker.image)
            ),
            partition_count=lambda: self.partition_count(TRANSACTION_TOPIC),
            timeout_ms=lambda: broker.config.integer("request.timeout.ms"),
            load_buffer_bytes=lambda: broker.config.integer("transaction.state.log.load.buffer.size"),
            performer=self._marker_sender,
        )

    def start(self) -> None:
        self._marker_sender.apply(self._broker.image)
        self.groups.start()
        self.transactions.start()

    def apply(self, changes: ReplicaChanges, delta: MetadataDelta, image: MetadataImage) -> None:
        self._marker_sender.apply(image)
        if delta.features:
            for transactions in self.transactions.states:
                transactions.configure(self._broker.config, _transaction_level(image))
        self.groups.apply(changes)
        self.transactions.apply(changes)
        for state in self.groups.states:
            state.metadata_changed(delta, image)
        for shard in self.groups.shards:
            # A timer may be due earlier now.
            shard.loaded()

    def configure(self, config: BrokerConfig) -> None:
        for transactions in self.transactions.states:
            transactions.configure(config, transactions.level)

    async def stop(self) -> None:
        self.transactions.stop()
        self.groups.stop()
        await self._marker_sender.close()

    # Their topics

    def partition_count(self, topic: str) -> int:
        """The partition count with which the topic was created: the configuration may have changed since."""
        topics = self._broker.image.topics
        known = self._partition_counts.get(topic)
        if known is not None and known[0] is topics:
            return known[1]
        existing = topics.get(topic)
        count = partition_count(topic, self._broker.config) if existing is None else len(existing.partitions)
        self._partition_counts[topic] = (topics, count)
        return count

    async def create_topic(self, topic: str) -> None:
        """Creates the topic on first use. Until that succeeds, its keys have no coordinator."""
        broker = self._broker
        if topic in broker.image.topics.ids:
            return
        asked = coordinator_topic(topic, broker.config)
        timeout_ms = broker.config.integer("request.timeout.ms")
        response = await broker.controller.ask(CreateTopicsRequest(topics=[asked], timeout_ms=timeout_ms))
        [result] = response.topics
        error = ErrorCode.of(result.error_code)
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._creation_errors.pop(topic, None)
            await broker.until(lambda: topic in broker.image.topics.ids, _CREATION_PATIENCE_S)
        elif self._creation_errors.get(topic) is not error:
            # Log it once: clients ask several times a second.
            self._creation_errors[topic] = error
            _log.warning(
                "Cannot create %s with %s=%d: %s (%s). Clients find no coordinator until it is created",
                topic,
                replication_factor_key(topic),
                asked.replication_factor,
                error.name,
                result.error_message,
            )


def _transaction_level(image: MetadataImage) -> int:
    return image.features.get(TRANSACTION_VERSION, 0)


def _marker_sender(broker: BrokerContext, writer: MarkerWriter) -> MarkerSender:
    config, listener = broker.config, broker.config.listeners.inter_broker
    settings = peer_settings(config, listener, f"broker-{broker.id}-txn-marker-sender")
    own = (broker.id, {WriteTxnMarkersRequest.api_key: writer.answer})
    peers = BrokerPeers(broker.network, settings, broker.random, listener, own)
    return MarkerSender(broker.id, peers, broker.random)
