"""Readiness of a node, with the reasons if it is not ready: the answer of `/ready`."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.image import NO_LEADER
from cordwood.node import Node


def problems(node: Node) -> list[str]:
    """Reasons why a started node is not ready; empty if it is."""
    if node.failure is not None:
        return [f"the node is stopping: {node.failure}"]
    if node.stopped.is_set():
        return ["the node is stopping"]
    return [] if node.broker_role is None else _problems_of(node.broker_role.broker)


def _problems_of(broker: Broker) -> list[str]:
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
