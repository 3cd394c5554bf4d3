"""The cluster as of one offset of the metadata log: an immutable value. `delta.MetadataDelta` makes the next one.

A section holds the contents of Kafka's metadata records, as plain values. Sections that grow with the number of
topics are persistent maps, so that a change does not copy them; the others are small and are copied when they change.
The dicts of an image are never modified.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from cordwood.raft.log import OffsetAndEpoch as OffsetAndEpoch
from cordwood.wire.primitives import Uuid

from .persistent_map import PersistentMap, hash_number, hash_text, hash_uuid

NO_LEADER = -1
METADATA_VERSION = "metadata.version"

# Reserved directory ids.
UNASSIGNED_DIRECTORY: Uuid = bytes(16)
LOST_DIRECTORY: Uuid = bytes(15) + b"\x01"
MIGRATING_DIRECTORY: Uuid = bytes(15) + b"\x02"
# Kafka keeps the first hundred ids for such uses.
RESERVED_DIRECTORIES = 100


def is_reserved_directory(directory: Uuid) -> bool:
    return int.from_bytes(directory) < RESERVED_DIRECTORIES


# Topics


class LeaderRecovery(IntEnum):
    """Recovery state of a leader that was not in sync and may have to restore the partition first (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    # The directory of each replica, in the same order.
    directories: tuple[Uuid, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # Out of sync, but known to have all that was committed (KIP-966).
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery: LeaderRecovery = LeaderRecovery.RECOVERED

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> Uuid:
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return UNASSIGNED_DIRECTORY


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: Uuid
    partitions: PersistentMap[int, PartitionRegistration] = field(default_factory=lambda: PersistentMap(hash_number))


@dataclass(frozen=True, slots=True)
class Topics:
    by_id: PersistentMap[Uuid, Topic] = field(default_factory=lambda: PersistentMap(hash_uuid))
    ids: PersistentMap[str, Uuid] = field(default_factory=lambda: PersistentMap(hash_text))
    # Names with '.' or '_', by their form in metric names: two that collide there are not allowed.
    colliding: PersistentMap[str, tuple[str, ...]] = field(default_factory=lambda: PersistentMap(hash_text))

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.by_id.values())

    def __contains__(self, name: str) -> bool:
        return name in self.ids

    def get(self, name: str) -> Topic | None:
        topic_id = self.ids.get(name)
        return None if topic_id is None else self.by_id[topic_id]

    def partition(self, name: str, partition_id: int) -> PartitionRegistration | None:
        topic = self.get(name)
        return None if topic is None else topic.partitions.get(partition_id)


def unify_collision_chars(name: str) -> str:
    return name.replace(".", "_")


def has_collision_chars(name: str) -> bool:
    return "." in name or "_" in name


# Nodes


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    low: int
    high: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.low <= level <= self.high


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    # The offset of its registration, which distinguishes it from earlier incarnations.
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, FeatureRange] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    # None: the broker has not said (KIP-1066).
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def is_active(self) -> bool:
        """True if it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_directory(self, directory: Uuid) -> bool:
        if directory == LOST_DIRECTORY:
            return False
        return not self.log_dirs or is_reserved_directory(directory) or directory in self.log_dirs

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


@dataclass(frozen=True, slots=True)
class ControllerNode:
    id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...] = ()
    features: Mapping[str, FeatureRange] = field(default_factory=dict)
    zk_migration_ready: bool = False


# Configuration, quotas, security


class ResourceType(IntEnum):
    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The owner of a configuration; the brokers' common default has an empty name."""

    type: int
    name: str


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


def broker_resource(broker_id: int) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, str(broker_id))


BROKER_DEFAULT = ConfigResource(ResourceType.BROKER, "")

Config = Mapping[str, str]

# ("user", "alice"), ("client-id", None): None is the default entity; sorted by type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class Acl(NamedTuple):
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramUser(NamedTuple):
    name: str
    # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512.
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class DelegationToken(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiration_ms: int


# The whole


NOTHING = OffsetAndEpoch(0, 0)


def _hash_resource(resource: ConfigResource) -> int:
    return hash_text(resource.name) + resource.type


@dataclass(frozen=True, slots=True)
class MetadataImage:
    # Which records it holds: all below this offset, the last of them written in this epoch, at this time.
    covers: OffsetAndEpoch = NOTHING
    last_timestamp_ms: int = 0
    topics: Topics = field(default_factory=Topics)
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    controllers: Mapping[int, ControllerNode] = field(default_factory=dict)
    configs: PersistentMap[ConfigResource, Config] = field(default_factory=lambda: PersistentMap(_hash_resource))
    # Finalized levels, `metadata.version` among them; one that is not here is at 0.
    features: Mapping[str, int] = field(default_factory=dict)
    # Producer ids below it were handed out.
    next_producer_id: int = 0
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    acls: Mapping[Uuid, Acl] = field(default_factory=dict)
    scram: Mapping[ScramUser, ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    def config(self, resource: ConfigResource) -> Config:
        """Its dynamic configuration, without fallbacks."""
        return self.configs.get(resource, _NO_CONFIG)

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def same_state(self, other: "MetadataImage") -> bool:
        """Equal in all but which records made it."""
        return all(getattr(self, name) == getattr(other, name) for name in _SECTIONS)


_NO_CONFIG: Config = {}
_SECTIONS = tuple(name for name in MetadataImage.__dataclass_fields__ if name not in ("covers", "last_timestamp_ms"))
