"""New partitions: the replicas that were asked for or chosen, with their first leader."""

from collections.abc import Sequence

from cordwood.metadata.image import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, MetadataImage, PartitionRegistration
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid


def check_manual_assignment(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list.")
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{prefix} broker {broker_id}, but no such broker is registered.",
            )
        if broker_id == previous:
            raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s).",
        )


def manual_partition(image: MetadataImage, partition_id: int, replicas: Sequence[int]) -> PartitionRegistration:
    partition = _new_partition(image, replicas)
    if partition is None:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {partition_id} "
            "are fenced or in controlled shutdown.",
        )
    return partition


def placed_partition(image: MetadataImage, replicas: Sequence[int]) -> PartitionRegistration:
    partition = _new_partition(image, replicas)
    if partition is None:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {len(replicas)} time(s): "
            "All brokers are currently fenced or in controlled shutdown.",
        )
    return partition


def _new_partition(image: MetadataImage, replicas: Sequence[int]) -> PartitionRegistration | None:
    isr = tuple(replica for replica in replicas if image.is_active(replica))
    if not isr:
        return None
    directories = tuple(default_directory(image, replica) for replica in replicas)
    return PartitionRegistration(tuple(replicas), isr, isr[0], 0, 0, directories)


def default_directory(image: MetadataImage, broker_id: int) -> Uuid:
    """A broker with one directory has no choice; others say later where they have put a replica (KIP-858)."""
    log_dirs = image.brokers[broker_id].log_dirs
    if len(log_dirs) == 1:
        return log_dirs[0]
    return UNASSIGNED_DIRECTORY if log_dirs else MIGRATING_DIRECTORY
