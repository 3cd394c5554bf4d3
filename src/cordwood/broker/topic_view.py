"""The clients' view of topics and partitions, derived from the metadata."""

from __future__ import annotations

from collections.abc import Container

from cordwood.metadata.image import MetadataImage, PartitionRegistration

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

# There are no ACLs: every topic operation of Kafka's AclOperation is allowed, one bit each.
ALL_ON_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))


def offline_replicas(image: MetadataImage, partition: PartitionRegistration, reachable: Container[int]) -> list[int]:
    """Returns the replicas on brokers that the client cannot reach, and those in failed directories."""
    return [
        replica
        for replica in partition.replicas
        if replica not in reachable or not image.brokers[replica].has_online_directory(partition.directory_of(replica))
    ]
