"""The workloads of a run."""

from .base import Workload
from .cluster import CLUSTER
from .damage import DAMAGE
from .groups import GROUPS
from .node import NODE
from .quorum import QUORUM
from .transactions import TRANSACTIONS

WORKLOADS = {workload.name: workload for workload in (NODE, GROUPS, TRANSACTIONS, DAMAGE, QUORUM, CLUSTER)}

__all__ = ["WORKLOADS", "Workload"]
