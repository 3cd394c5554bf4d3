"""What is done to a node in a run."""

from .base import Workload
from .damage import DAMAGE
from .groups import GROUPS
from .node import NODE
from .transactions import TRANSACTIONS

WORKLOADS = {workload.name: workload for workload in (NODE, GROUPS, TRANSACTIONS, DAMAGE)}

__all__ = ["WORKLOADS", "Workload"]
