"""Common parts of the controller's decisions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from cordwood.metadata.image import Config, ConfigResource
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.create_topics import CreatableTopicConfigs

# Kafka's limit for one request.
MAX_PARTITIONS_PER_REQUEST = 10_000


class ControllerDefaults(NamedTuple):
    """Defaults from the node's own configuration, for topics without a setting or a dynamic default."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSchema:
    """Properties of configuration keys, provided from outside this package."""

    # Validates the whole new configuration of a resource; returns the error, or None.
    check: Callable[[ConfigResource, Config], Refusal | None] = lambda _resource, _config: None
    # Whether a key holds a list, to which APPEND and SUBTRACT apply; and its default.
    is_list: Callable[[int, str], bool] = lambda _type, _name: False
    default: Callable[[int, str], str | None] = lambda _type, _name: None
    # A new topic's configuration as CreateTopics answers it.
    describe_topic: Callable[[Config], list[CreatableTopicConfigs]] = field(default=lambda _config: [])
