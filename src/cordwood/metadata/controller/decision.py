"""Common parts of the controller's decisions."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cordwood.metadata.image import Config, ConfigResource, is_reserved_directory
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.create_topics import CreatableTopicConfigs
from cordwood.wire.primitives import Uuid, uuid_text

# What Kafka lets one request write.
MAX_PARTITIONS_PER_REQUEST = 10_000


@dataclass(frozen=True, slots=True)
class ControllerDefaults:
    """Of the node's own configuration: what holds where no topic and no dynamic default says otherwise."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


@dataclass(frozen=True, slots=True)
class ConfigSchema:
    """Properties of configuration keys, provided from outside this package."""

    # What is wrong with the whole new configuration of a resource; None if nothing is.
    check: Callable[[ConfigResource, Config], Refusal | None] = lambda _resource, _config: None
    # Whether a key holds a list, to which APPEND and SUBTRACT apply; and its default.
    is_list: Callable[[int, str], bool] = lambda _type, _name: False
    default: Callable[[int, str], str | None] = lambda _type, _name: None
    # A new topic's configuration as CreateTopics answers it.
    describe_topic: Callable[[Config], list[CreatableTopicConfigs]] = field(default=lambda _config: [])


def new_uuid(random: Random) -> Uuid:
    """Random (RFC 9562, version 4), and as Kafka's: none that is reserved, none whose text looks like an option."""
    while True:
        uuid = bytearray(random.below(1 << 128).to_bytes(16))
        uuid[6] = uuid[6] & 0x0F | 0x40
        uuid[8] = uuid[8] & 0x3F | 0x80
        if not is_reserved_directory(bytes(uuid)) and not uuid_text(bytes(uuid)).startswith("-"):
            return bytes(uuid)
