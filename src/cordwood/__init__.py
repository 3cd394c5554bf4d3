"""Cordwood: a distributed commit log that speaks Apache Kafka's protocol.

>>> from cordwood import Producer
>>> with Producer(bootstrap_servers="localhost:9092") as producer:
...     producer.send("orders", "first")

This package exports the clients for threads; `cordwood.aio` has those for asyncio. See docs/client.md. Everything is
imported on first use, even typing, to keep the start of nodes and commands fast.
"""

__version__ = "0.1.0"

# Like typing's, which type checkers recognise by its name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from cordwood.client.admin.acls import Acl, AclFilter, AclOperation, AclPermission, AclResourceType, PatternType
    from cordwood.client.admin.cluster import (
        ClusterDescription,
        FeatureLevels,
        FeatureUpdate,
        Quorum,
        QuorumReplica,
        UpgradeType,
    )
    from cordwood.client.admin.configs import (
        AlterOperation,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
    )
    from cordwood.client.admin.groups import GroupDescription, GroupListing, GroupMember
    from cordwood.client.admin.log_dirs import LogDir, ReplicaInLogDir, ReplicaLogDirs, TopicPartitionReplica
    from cordwood.client.admin.partitions import ElectionType, PartitionReassignment
    from cordwood.client.admin.quotas import QuotaEntity, QuotaName
    from cordwood.client.admin.scram import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
    from cordwood.client.admin.tokens import DelegationToken
    from cordwood.client.admin.topic_descriptions import PartitionDescription, TopicDescription
    from cordwood.client.admin.topics import CreatedTopic, NewPartitions, NewTopic
    from cordwood.client.admin.transactions import (
        ActiveProducer,
        FencingProducer,
        OpenTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from cordwood.client.blocking.admin import Admin
    from cordwood.client.blocking.consumer import Consumer
    from cordwood.client.blocking.producer import Producer
    from cordwood.client.cluster import TopicPartition
    from cordwood.client.consumer.assignors.assignor import Assignor
    from cordwood.client.consumer.group_metadata import GroupMetadata
    from cordwood.client.consumer.subscription import RebalanceListener, SubscriptionPattern
    from cordwood.client.errors import (
        AuthenticationFailed,
        AuthorizationFailed,
        BadAnswer,
        BadSetting,
        BrokerError,
        BufferExhausted,
        CannotReachCluster,
        ClientError,
        Closed,
        CommitFailed,
        FatalTransactionError,
        GaveUp,
        GroupFenced,
        IllegalState,
        InvalidOffset,
        LogTruncation,
        NetworkFailed,
        NoOffsetForPartition,
        OffsetOutOfRange,
        ProducerFenced,
        RebalanceInProgress,
        RecordTooLarge,
        RetriableCommitFailed,
        SerializationFailed,
        TimedOut,
        TopicNotCreated,
        TopicNotFound,
        TransactionAbortable,
        TransactionAborted,
        UnsupportedByBroker,
        WakeupError,
    )
    from cordwood.client.offset_types import OffsetAndMetadata, OffsetAndTimestamp
    from cordwood.client.offsets import ListedOffset, OffsetSpec
    from cordwood.client.options.configuration import NoEffectWarning
    from cordwood.client.producer.bulk import BulkDelivery, BulkMetadata
    from cordwood.client.producer.deliveries import Delivery, RecordMetadata
    from cordwood.client.producer.input.interceptors import ProducerRecord
    from cordwood.client.producer.transactions.prepared import LeftTransaction, PreparedTxnState
    from cordwood.wire.errors import ErrorCode
    from cordwood.wire.record import ConsumerRecord

_HOMES = {
    "cordwood.client.admin.acls": (
        "Acl",
        "AclFilter",
        "AclOperation",
        "AclPermission",
        "AclResourceType",
        "PatternType",
    ),
    "cordwood.client.admin.cluster": (
        "ClusterDescription",
        "FeatureLevels",
        "FeatureUpdate",
        "Quorum",
        "QuorumReplica",
        "UpgradeType",
    ),
    "cordwood.client.admin.configs": (
        "AlterOperation",
        "ConfigChange",
        "ConfigEntry",
        "ConfigResource",
        "ConfigResourceType",
        "ConfigSource",
        "ConfigSynonym",
        "ConfigType",
    ),
    "cordwood.client.admin.groups": ("GroupDescription", "GroupListing", "GroupMember"),
    "cordwood.client.admin.log_dirs": ("LogDir", "ReplicaInLogDir", "ReplicaLogDirs", "TopicPartitionReplica"),
    "cordwood.client.admin.partitions": ("ElectionType", "PartitionReassignment"),
    "cordwood.client.admin.quotas": ("QuotaEntity", "QuotaName"),
    "cordwood.client.admin.scram": ("ScramCredential", "ScramDeletion", "ScramMechanism", "ScramUpsertion"),
    "cordwood.client.admin.tokens": ("DelegationToken",),
    "cordwood.client.admin.topic_descriptions": ("PartitionDescription", "TopicDescription"),
    "cordwood.client.admin.topics": ("CreatedTopic", "NewPartitions", "NewTopic"),
    "cordwood.client.admin.transactions": (
        "ActiveProducer",
        "FencingProducer",
        "OpenTransaction",
        "TransactionDescription",
        "TransactionListing",
    ),
    "cordwood.client.blocking.admin": ("Admin",),
    "cordwood.client.blocking.consumer": ("Consumer",),
    "cordwood.client.blocking.producer": ("Producer",),
    "cordwood.client.cluster": ("TopicPartition",),
    "cordwood.client.options.configuration": ("NoEffectWarning",),
    "cordwood.client.consumer.assignors.assignor": ("Assignor",),
    "cordwood.client.consumer.group_metadata": ("GroupMetadata",),
    "cordwood.client.consumer.subscription": ("RebalanceListener", "SubscriptionPattern"),
    "cordwood.client.errors": (
        "AuthenticationFailed",
        "AuthorizationFailed",
        "BadAnswer",
        "BadSetting",
        "BrokerError",
        "BufferExhausted",
        "CannotReachCluster",
        "ClientError",
        "Closed",
        "CommitFailed",
        "FatalTransactionError",
        "GaveUp",
        "GroupFenced",
        "IllegalState",
        "InvalidOffset",
        "LogTruncation",
        "NetworkFailed",
        "NoOffsetForPartition",
        "OffsetOutOfRange",
        "ProducerFenced",
        "RebalanceInProgress",
        "RecordTooLarge",
        "RetriableCommitFailed",
        "SerializationFailed",
        "TimedOut",
        "TopicNotCreated",
        "TopicNotFound",
        "TransactionAbortable",
        "TransactionAborted",
        "UnsupportedByBroker",
        "WakeupError",
    ),
    "cordwood.client.offset_types": ("OffsetAndMetadata", "OffsetAndTimestamp"),
    "cordwood.client.offsets": ("ListedOffset", "OffsetSpec"),
    "cordwood.client.producer.bulk": ("BulkDelivery", "BulkMetadata"),
    "cordwood.client.producer.deliveries": ("Delivery", "RecordMetadata"),
    "cordwood.client.producer.input.interceptors": ("ProducerRecord",),
    "cordwood.client.producer.transactions.prepared": ("LeftTransaction", "PreparedTxnState"),
    "cordwood.wire.errors": ("ErrorCode",),
    "cordwood.wire.record": ("ConsumerRecord",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "ActiveProducer",
    "Admin",
    "AlterOperation",
    "Assignor",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "BadAnswer",
    "BadSetting",
    "BrokerError",
    "BufferExhausted",
    "BulkDelivery",
    "BulkMetadata",
    "CannotReachCluster",
    "ClientError",
    "Closed",
    "ClusterDescription",
    "CommitFailed",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Consumer",
    "ConsumerRecord",
    "CreatedTopic",
    "DelegationToken",
    "Delivery",
    "ElectionType",
    "ErrorCode",
    "FatalTransactionError",
    "FeatureLevels",
    "FeatureUpdate",
    "FencingProducer",
    "GaveUp",
    "GroupDescription",
    "GroupFenced",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "IllegalState",
    "InvalidOffset",
    "LeftTransaction",
    "ListedOffset",
    "LogDir",
    "LogTruncation",
    "NetworkFailed",
    "NewPartitions",
    "NewTopic",
    "NoEffectWarning",
    "NoOffsetForPartition",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OffsetSpec",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionReassignment",
    "PatternType",
    "PreparedTxnState",
    "Producer",
    "ProducerFenced",
    "ProducerRecord",
    "Quorum",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaName",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "RecordTooLarge",
    "ReplicaInLogDir",
    "ReplicaLogDirs",
    "RetriableCommitFailed",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "SerializationFailed",
    "SubscriptionPattern",
    "TimedOut",
    "TopicDescription",
    "TopicNotCreated",
    "TopicNotFound",
    "TopicPartition",
    "TopicPartitionReplica",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionListing",
    "UnsupportedByBroker",
    "UpgradeType",
    "WakeupError",
]


# Type checkers would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
