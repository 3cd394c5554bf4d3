"""The coordinators of a broker, and the topics that they keep their state in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordwood.coordinator.coordinator import Coordinator
from cordwood.coordinator.groups.state import GroupState
from cordwood.metadata.controller.topics import create_topics
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import ConfigResource, MetadataImage, ResourceType
from cordwood.metadata.topics_delta import ReplicaChanges
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

from .config_schema import config_schema

if TYPE_CHECKING:
    from .broker import Broker

GROUP_TOPIC = "__consumer_offsets"


class Coordinators:
    """`groups` coordinates groups and their offsets."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.groups: Coordinator[GroupState] = Coordinator(
            "group",
            GROUP_TOPIC,
            broker.replicas,
            broker.clock,
            new_state=lambda _index: GroupState(
                broker.clock,
                broker.random,
                lambda: broker.config,
                lambda: broker.image,
                lambda group_id: broker.image.config(ConfigResource(ResourceType.GROUP, group_id)),
            ),
            partition_count=lambda: self._partition_count(GROUP_TOPIC, "offsets.topic.num.partitions"),
            timeout_ms=lambda: broker.config.integer("offsets.commit.timeout.ms"),
            codec=lambda: Codec(broker.config.integer("offsets.topic.compression.codec")),
        )

    def start(self) -> None:
        self.groups.start()

    def apply(self, changes: ReplicaChanges, delta: MetadataDelta, image: MetadataImage) -> None:
        self.groups.apply(changes)
        for shard in self.groups.shards:
            shard.state.metadata_changed(delta, image)
            shard.loaded()

    def stop(self) -> None:
        self.groups.stop()

    # Their topics

    def _partition_count(self, topic: str, key: str) -> int:
        """As it was when the topic was made: the configuration may have changed since."""
        topic_id = self._broker.image.topics.ids.get(topic)
        if topic_id is None:
            return self._broker.config.integer(key)
        return len(self._broker.image.topics.by_id[topic_id].partitions)

    async def create_topic(self, topic: str) -> ErrorCode:
        """On first use; NONE if it is there now."""
        if topic in self._broker.image.topics.ids:
            return ErrorCode.NONE
        request = CreateTopicsRequest(topics=[self._topic(topic)], timeout_ms=0)
        broker = self._broker
        response = await broker.controller.decide(
            lambda image: create_topics(image, request, broker.random, broker.defaults, config_schema(broker))
        )
        error = ErrorCode(response.topics[0].error_code)
        return ErrorCode.NONE if error == ErrorCode.TOPIC_ALREADY_EXISTS else error

    def _topic(self, topic: str) -> CreatableTopic:
        config = self._broker.config
        assert topic == GROUP_TOPIC
        return CreatableTopic(
            name=topic,
            num_partitions=config.integer("offsets.topic.num.partitions"),
            replication_factor=config.integer("offsets.topic.replication.factor"),
            assignments=[],
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(name="segment.bytes", value=config.text("offsets.topic.segment.bytes")),
            ],
        )
