"""Whether a node can do its work, and if not, why: what `/ready` answers."""

from __future__ import annotations

from cordwood.metadata.image import NO_LEADER
from cordwood.node import Node


def problems(node: Node) -> list[str]:
    """What keeps a started node from being ready; empty if nothing does."""
    if node.failure is not None:
        return [f"the node stops: {node.failure}"]
    if node.stopped.is_set():
        return ["the node stops"]
    broker = node.broker
    found = []
    if not broker.image.is_active(broker.id):
        found.append(f"broker {broker.id} has not joined the cluster: it is not registered, or it is fenced")
    found += [
        f"log directory {directory.disk.root} is offline"
        for directory in broker.replicas.directories.directories
        if directory.is_offline
    ]
    offline = leaderless = 0
    for partition in broker.replicas:
        if partition.log is None:
            offline += 1
        elif partition.state.leader == NO_LEADER:
            leaderless += 1
    if offline:
        found.append(f"{offline} partitions are offline")
    if leaderless:
        found.append(f"{leaderless} partitions have no leader")
    return found
