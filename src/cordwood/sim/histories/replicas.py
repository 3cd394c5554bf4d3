"""Observed states of the replicas of a cluster's partitions, for the checks."""

from dataclasses import dataclass, field

from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.sim.partition import Partition


@dataclass(frozen=True, slots=True)
class Led:
    """A broker leads a partition in an epoch, with this high watermark."""

    at_s: float
    node_id: int
    incarnation: int
    partition: Partition
    epoch: int
    high_watermark: int
    # The leader's in-sync set, and its partition epoch.
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Held:
    """A replica on a broker that runs. `log` counts the logs that the broker has had of the partition, one after the
    other."""

    at_s: float
    node_id: int
    incarnation: int
    partition: Partition
    log: int
    high_watermark: int
    leader_epoch: int
    is_leader: bool


@dataclass(frozen=True, slots=True)
class StateCommitted:
    """A change of a partition that the controllers have committed."""

    at_s: float
    partition: Partition
    before: PartitionState | None
    state: PartitionState


@dataclass(slots=True)
class ReplicaHistory:
    led: list[Led] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    states: list[StateCommitted] = field(default_factory=list)
    # Records below the high watermark that two replicas in sync have differently.
    differences: list[str] = field(default_factory=list)
    # Replicas in sync that lack records below the high watermark.
    shortfalls: list[str] = field(default_factory=list)
    # Replicas with other settings than their broker knows for the topic.
    stale_settings: list[str] = field(default_factory=list)
    # Topics that may lose acknowledged records: acks=1, or unclean leader elections.
    loose: set[str] = field(default_factory=set)
    # Brokers may lose acknowledged data, one at a time.
    disks_may_go: bool = False
    # At the end, the offsets of each partition's leader below its high watermark.
    final_offsets: dict[Partition, list[int]] = field(default_factory=dict)
