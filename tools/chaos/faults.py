"""The faults: each does its damage, holds it, and takes it back. Only one is at work at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from chaos.cluster import NODE_IDS, ChaosCluster, Node, until
from chaos.network import CLIENTS
from cordwood import Admin, TopicPartition


class Scene:
    """The objects of a fault. `hold_s` is how long most of them last: longer than a session."""

    def __init__(self, cluster: ChaosCluster, random: Random, topics: dict[str, int], hold_s: float) -> None:
        self.cluster = cluster
        self.random = random
        self.topics = topics
        self.hold_s = hold_s

    def hold(self, share: float = 1.0) -> None:
        time.sleep(self.hold_s * share)

    def any_node(self) -> Node:
        return self.cluster.nodes[self.random.choice(NODE_IDS)]

    def controller(self) -> Node:
        return self.cluster.nodes[self.cluster.controller()]

    def other_node(self) -> Node:
        """Any but the active controller."""
        controller = self.cluster.controller()
        return self.cluster.nodes[self.random.choice([each for each in NODE_IDS if each != controller])]

    def partitions(self, share: float) -> list[TopicPartition]:
        every = [TopicPartition(topic, number) for topic, count in self.topics.items() for number in range(count)]
        return self.random.sample(every, max(1, round(len(every) * share)))


@dataclass(frozen=True, slots=True)
class Fault:
    """`run` returns a description of its target."""

    name: str
    run: Callable[[Scene], str]
    needs_links: bool = False
    needs_small_disk: bool = False
    # Leaves fewer nodes than a write needs, for as long as it lasts.
    stops_writes: bool = False


def _kill(scene: Scene) -> str:
    return _killed(scene, scene.other_node())


def _kill_controller(scene: Scene) -> str:
    return _killed(scene, scene.controller())


def _killed(scene: Scene, victim: Node) -> str:
    victim.kill()
    scene.hold()
    victim.start()
    return f"node {victim.id}"


def _kill_briefly(scene: Scene) -> str:
    victim = scene.any_node()
    victim.kill()
    victim.start()
    return f"node {victim.id}"


def _kill_two(scene: Scene) -> str:
    victims = scene.random.sample(list(scene.cluster.nodes.values()), 2)
    for victim in victims:
        victim.kill()
    scene.hold(0.25)
    for victim in victims:
        victim.start()
    return "nodes " + " and ".join(str(victim.id) for victim in victims)


def _kill_all(scene: Scene) -> str:
    for node in scene.cluster.nodes.values():
        node.kill()
    for node in scene.cluster.nodes.values():
        node.start()
    return "all nodes"


def _pause(scene: Scene) -> str:
    return _paused(scene, scene.other_node(), 1.0)


def _pause_controller(scene: Scene) -> str:
    return _paused(scene, scene.controller(), 1.0)


def _pause_briefly(scene: Scene) -> str:
    return _paused(scene, scene.any_node(), 0.25)


def _paused(scene: Scene, victim: Node, share: float) -> str:
    victim.pause()
    scene.hold(share)
    victim.resume()
    return f"node {victim.id}"


def _cut_link(scene: Scene) -> str:
    one, other = scene.random.sample(NODE_IDS, 2)
    scene.cluster.network.cut(one, other)
    scene.cluster.network.cut(other, one)
    scene.hold()
    return f"between nodes {one} and {other}"


def _cut_one_way(scene: Scene) -> str:
    one, other = scene.random.sample(NODE_IDS, 2)
    scene.cluster.network.cut(one, other)
    scene.hold()
    return f"from node {one} to node {other}"


def _isolate(scene: Scene) -> str:
    return _isolated(scene, scene.other_node())


def _isolate_controller(scene: Scene) -> str:
    return _isolated(scene, scene.controller())


def _isolated(scene: Scene, victim: Node) -> str:
    for end in (CLIENTS, *NODE_IDS):
        if end != victim.id:
            scene.cluster.network.cut(end, victim.id)
            scene.cluster.network.cut(victim.id, end)
    scene.hold()
    return f"node {victim.id}"


def _part_from_nodes(scene: Scene) -> str:
    """Clients still reach it."""
    victim = scene.any_node()
    for end in NODE_IDS:
        if end != victim.id:
            scene.cluster.network.cut(end, victim.id)
            scene.cluster.network.cut(victim.id, end)
    scene.hold()
    return f"node {victim.id}"


def _mute(scene: Scene) -> str:
    """It receives everything, but its messages are lost."""
    victim = scene.any_node()
    for end in (CLIENTS, *NODE_IDS):
        if end != victim.id:
            scene.cluster.network.cut(victim.id, end)
    scene.hold()
    return f"node {victim.id}"


def _slow_links(scene: Scene) -> str:
    victim = scene.any_node()
    scene.cluster.network.slow_down(victim.id)
    scene.hold()
    return f"node {victim.id}"


def _fill_disk(scene: Scene) -> str:
    victim = scene.any_node()
    victim.fill_disk()
    scene.hold()
    victim.free_disk()
    # A directory that has failed stays offline until the node starts again.
    victim.stop()
    victim.start()
    return f"node {victim.id}"


def _wipe(scene: Scene) -> str:
    victim = scene.any_node()
    victim.kill()
    victim.wipe()
    victim.start()
    return f"node {victim.id}"


def _wipe_one_disk(scene: Scene) -> str:
    victim = scene.any_node()
    disk = scene.random.choice(victim.disks)
    victim.kill()
    victim.wipe([disk])
    victim.start()
    return f"node {victim.id}, {disk.name}"


def _roll(scene: Scene) -> str:
    order = scene.random.sample(NODE_IDS, len(NODE_IDS))
    for node_id in order:
        node = scene.cluster.nodes[node_id]
        node.stop()
        node.start()
        scene.cluster.await_in_sync()
    return "in the order " + ", ".join(map(str, order))


def _reassign(scene: Scene) -> str:
    """A replica of many partitions is taken from a node and comes back, with another leader; the node is killed in the
    meantime."""
    partitions = scene.partitions(0.5)
    newcomer = scene.other_node()
    staying = [node_id for node_id in NODE_IDS if node_id != newcomer.id]
    _move(scene, {partition: scene.random.sample(staying, 2) for partition in partitions})
    _await_moves(scene, partitions)
    _move(scene, {partition: [newcomer.id, *scene.random.sample(staying, 2)] for partition in partitions})
    newcomer.kill()
    newcomer.start()
    _await_moves(scene, partitions)
    return f"{len(partitions)} partitions from and to node {newcomer.id}"


def _move(scene: Scene, targets: dict[TopicPartition, list[int]]) -> None:
    with Admin(bootstrap_servers=scene.cluster.bootstrap) as admin:
        admin.alter_partition_reassignments(targets)


def _await_moves(scene: Scene, partitions: list[TopicPartition]) -> None:
    def are_done() -> bool:
        with Admin(bootstrap_servers=scene.cluster.bootstrap) as admin:
            return not admin.list_partition_reassignments(partitions)

    until(are_done, "the reassignments are done")


FAULTS = (
    Fault("node killed", _kill),
    Fault("active controller killed", _kill_controller),
    Fault("node killed, started at once", _kill_briefly),
    Fault("two nodes killed", _kill_two, stops_writes=True),
    Fault("all nodes killed, started at once", _kill_all, stops_writes=True),
    Fault("node paused", _pause),
    Fault("active controller paused", _pause_controller),
    Fault("node paused briefly", _pause_briefly),
    Fault("link cut", _cut_link, needs_links=True),
    Fault("link cut one way", _cut_one_way, needs_links=True),
    Fault("node isolated", _isolate, needs_links=True),
    Fault("active controller isolated", _isolate_controller, needs_links=True),
    Fault("node cut off from nodes", _part_from_nodes, needs_links=True),
    Fault("node mute", _mute, needs_links=True),
    Fault("links slow", _slow_links, needs_links=True),
    Fault("one disk of two full", _fill_disk, needs_small_disk=True),
    Fault("both disks wiped", _wipe),
    Fault("one disk wiped", _wipe_one_disk),
    Fault("rolling restart", _roll),
    Fault("reassignment, with a kill", _reassign),
)
