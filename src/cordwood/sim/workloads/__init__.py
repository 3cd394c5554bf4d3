"""What is done to a node in a run."""

from .base import Workload
from .groups import GROUPS
from .node import NODE

WORKLOADS = {workload.name: workload for workload in (NODE, GROUPS)}

__all__ = ["WORKLOADS", "Workload"]
