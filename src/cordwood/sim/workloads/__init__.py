"""The workloads of a run."""

from .base import Workload
from .cluster import CLUSTER
from .damage import DAMAGE
from .groups import GROUPS
from .node import NODE
from .quorum import QUORUM
from .registry import REGISTRY
from .transactions import TRANSACTIONS

WORKLOADS = {workload.name: workload for workload in (NODE, GROUPS, TRANSACTIONS, DAMAGE, QUORUM, CLUSTER, REGISTRY)}

__all__ = ["WORKLOADS", "Workload"]
