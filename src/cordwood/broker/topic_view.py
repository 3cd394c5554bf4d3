"""What clients are told of topics and partitions, beyond what the metadata says in so many words."""

from __future__ import annotations

from cordwood.metadata.image import MetadataImage, Partition

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# There are no ACLs: everything that Kafka's AclOperation knows of a topic and of a cluster is allowed, a bit each.
ALL_ON_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_ON_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


def offline_replicas(image: MetadataImage, partition: Partition, listener: str) -> list[int]:
    """Those that clients of a listener cannot reach, and those whose directory has failed."""
    return [replica for replica in partition.replicas if not _is_online(image, partition, listener, replica)]


def _is_online(image: MetadataImage, partition: Partition, listener: str, replica: int) -> bool:
    broker = image.brokers.get(replica)
    return (
        broker is not None
        and not broker.fenced
        and broker.endpoint(listener) is not None
        and broker.has_online_directory(partition.directory_of(replica))
    )
