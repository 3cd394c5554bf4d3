"""A cluster in a test: an image, decisions applied to it, and records as a person reads them."""

from collections.abc import Sequence
from typing import TypeVar

from cordwood.metadata.bootstrap import activation_records
from cordwood.metadata.controller.brokers import broker_heartbeat, register_broker
from cordwood.metadata.controller.decision import ConfigSchema, ControllerDefaults
from cordwood.metadata.controller.topics import create_topics
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.features import BOOTSTRAP_LEVELS, SUPPORTED
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.runtime.randomness import SeededRandom
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from cordwood.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.schema import MetadataRecord

R = TypeVar("R")

CLUSTER_ID = "a cluster"


def directory_of(broker_id: int) -> bytes:
    return bytes([0xD0]) * 15 + bytes([broker_id])


def incarnation(broker_id: int, number: int = 0) -> bytes:
    return bytes([0x1C]) * 14 + bytes([broker_id, number])


def response_of(decision: Decision[R]) -> R:
    """The controller's decisions never leave their response to a later one."""
    assert not isinstance(decision.response, Promise)
    return decision.response


class Cluster:
    def __init__(self, brokers: int = 1, defaults: ControllerDefaults | None = None, elr: bool = True) -> None:
        self.random = SeededRandom(7)
        self.defaults = defaults or ControllerDefaults()
        self.schema = ConfigSchema()
        self.loader = Loader()
        self.next_offset = 0
        self.delta = MetadataDelta(self.image)
        levels = {name: level for name, level in BOOTSTRAP_LEVELS.items() if elr or not name.startswith("eligible")}
        features = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
        self.commit(activation_records(features, self.defaults.min_insync_replicas))
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def commit(self, records: Sequence[MetadataRecord]) -> list[str]:
        """The records as text, after they were replayed."""
        if records:
            end = self.next_offset + len(records)
            batch = MetadataBatch(self.next_offset, end, 1, 1_700_000_000_000, 0, tuple(records))
            self.delta = self.loader.load(batch)
            self.next_offset = end
        return [told(record, self.image) for record in records]

    def apply(self, decision: Decision[R]) -> tuple[list[str], R]:
        return self.commit(decision.records), response_of(decision)

    # Common actions of tests

    def registration(self, broker_id: int, number: int = 0, **fields: object) -> BrokerRegistrationRequest:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=incarnation(broker_id, number),
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092 + broker_id, security_protocol=0)],
            features=[
                Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
                for name, levels in SUPPORTED.items()
            ],
            rack=None,
            log_dirs=[directory_of(broker_id)],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def register(self, broker_id: int, number: int = 0, **fields: object) -> list[str]:
        request = self.registration(broker_id, number, **fields)
        decision = register_broker(
            self.image, request, self.defaults, cluster_id=CLUSTER_ID, next_offset=self.next_offset
        )
        return self.apply(decision)[0]

    def heartbeat(self, broker_id: int, **fields: object) -> list[str]:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.next_offset - 1,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.apply(broker_heartbeat(self.image, request, self.defaults))[0]

    def start(self, broker_id: int, number: int = 0, **fields: object) -> list[str]:
        return self.register(broker_id, number, **fields) + self.heartbeat(broker_id)

    def stop(self, broker_id: int) -> list[str]:
        """As a broker does that stops in order: it asks until it may."""
        return self.heartbeat(broker_id, want_shut_down=True) + self.heartbeat(broker_id, want_shut_down=True)

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> tuple[list[str], CreateTopicsResponse]:
        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        return self.apply(create_topics(self.image, request, self.random, self.defaults, self.schema))


def topic(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    assignments: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
    )


def told(record: MetadataRecord, image: MetadataImage | None = None) -> str:
    """`Partition t-0 replicas=[1] leader=1`: what differs from the defaults; topics by name, directories left out."""
    cls = type(record)
    parts = []
    default = cls()
    topics = image.topics.by_id if image is not None else {}
    topic_id = getattr(record, "topic_id", None)
    if isinstance(topic_id, bytes) and topic_id in topics:
        partition = getattr(record, "partition_id", None)
        parts.append(topics[topic_id].name + ("" if partition is None else f"-{partition}"))
    for field in cls.fields:
        value = getattr(record, field.name)
        if value == getattr(default, field.name) or field.name in _LEFT_OUT:
            continue
        parts.append(f"{field.name}={value}")
    return " ".join([cls.__name__.removesuffix("Record"), *parts])


_LEFT_OUT = ("topic_id", "partition_id", "directories", "incarnation_id", "end_points", "features", "log_dirs")
