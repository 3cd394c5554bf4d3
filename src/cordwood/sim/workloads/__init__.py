"""The workloads of a run."""

from .base import Workload
from .cluster import CLUSTER
from .damage import DAMAGE
from .groups import CLUSTER_GROUPS, GROUPS
from .node import NODE
from .quorum import QUORUM
from .registry import REGISTRY
from .transactions import CLUSTER_TRANSACTIONS, TRANSACTIONS

WORKLOADS = {
    workload.name: workload
    for workload in (
        NODE,
        GROUPS,
        TRANSACTIONS,
        DAMAGE,
        QUORUM,
        CLUSTER,
        CLUSTER_GROUPS,
        CLUSTER_TRANSACTIONS,
        REGISTRY,
    )
}

__all__ = ["WORKLOADS", "Workload"]
