"""What is done to a node in a run."""

from .base import Workload
from .node import NODE

WORKLOADS = {workload.name: workload for workload in (NODE,)}

__all__ = ["WORKLOADS", "Workload"]
