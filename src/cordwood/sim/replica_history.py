"""Observed states of the replicas of a cluster's partitions, for the checks."""

from dataclasses import dataclass, field

from .partition import Partition


@dataclass(frozen=True, slots=True)
class Led:
    """A broker leads a partition in an epoch, with this high watermark."""

    at_s: float
    node_id: int
    incarnation: int
    partition: Partition
    epoch: int
    high_watermark: int


@dataclass(slots=True)
class ReplicaHistory:
    led: list[Led] = field(default_factory=list)
    # Records below the high watermark that two replicas in sync have differently.
    differences: list[str] = field(default_factory=list)
