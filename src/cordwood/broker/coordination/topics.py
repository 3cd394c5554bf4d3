"""The coordinators' topics, which are created on first use."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"

# The prefix of their settings.
_SETTINGS = {
    GROUP_TOPIC: "offsets.topic",
    TRANSACTION_TOPIC: "transaction.state.log",
    SHARE_TOPIC: "share.coordinator.state.topic",
}
_CONFIGS = {
    GROUP_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}


def partition_count(topic: str, config: BrokerConfig) -> int:
    """Returns the count for a topic that does not exist yet."""
    return config.integer(f"{_SETTINGS[topic]}.num.partitions")


def replication_factor_key(topic: str) -> str:
    return f"{_SETTINGS[topic]}.replication.factor"


def coordinator_topic(topic: str, config: BrokerConfig) -> CreatableTopic:
    settings = {**_CONFIGS[topic], "segment.bytes": str(config.integer(f"{_SETTINGS[topic]}.segment.bytes"))}
    if topic == TRANSACTION_TOPIC:
        settings["min.insync.replicas"] = str(config.integer("transaction.state.log.min.isr"))
    return CreatableTopic(
        name=topic,
        num_partitions=partition_count(topic, config),
        replication_factor=config.integer(replication_factor_key(topic)),
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
