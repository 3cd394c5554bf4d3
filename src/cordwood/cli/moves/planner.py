"""Plans that place replicas with as few moves as possible. No I/O.

A plan is made in this order, and each step keeps to what the ones before it decided:

1. Replicas on brokers that must not have them are replaced.
2. Replicas are added or dropped, where the replication factor is to change; those that are new are evened out.
3. With `balance`: replicas of a partition that share a rack while another rack has none are moved there; then replicas
   move from the brokers with the most to those with the fewest, until they differ by one or racks forbid it.
4. Preferred leaders are spread by reordering replicas, which copies nothing: of the partitions that changed, or with
   `balance` of all.

Racks come before numbers: a replica never moves to where its partition would be in fewer racks.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cordwood.client.cluster import TopicPartition

Replicas = tuple[int, ...]


class Impossible(Exception):
    """No plan satisfies the request; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The goal of a plan."""

    brokers: Mapping[int, str | None]
    """Brokers that may have replicas, each with its rack."""
    keeping: Mapping[int, str | None] = field(default_factory=dict)
    """Brokers that keep the replicas they have, and get no others: those that are down, for example."""
    replication_factor: int | None = None
    """None keeps that of each partition."""
    balance: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    partition: TopicPartition
    before: Replicas
    after: Replicas

    @property
    def added(self) -> Replicas:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> Replicas:
        return tuple(broker for broker in self.before if broker not in self.after)


def plan_moves(
    assignment: Mapping[TopicPartition, Sequence[int]],
    wish: Wish,
    elsewhere: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> list[Move]:
    """Returns the moves of `assignment`'s partitions, sorted. `elsewhere` are the other partitions, which only count
    towards the brokers' load. Raises `Impossible`."""
    planner = _Planner(assignment, wish, elsewhere or {})
    planner.check()
    for partition in assignment:
        planner.replace_forbidden(partition)
        planner.resize(partition)
    # Placing a new replica elsewhere costs no extra copy.
    planner.even_out(only_new=True)
    if wish.balance:
        for partition in assignment:
            planner.spread_over_racks(partition)
        planner.even_out()
    planner.spread_leaders(everywhere=wish.balance)
    return [
        Move(partition, tuple(assignment[partition]), tuple(after))
        for partition, after in sorted(planner.replicas.items())
        if list(assignment[partition]) != after
    ]


@dataclass(slots=True)
class _Planner:
    before: Mapping[TopicPartition, Sequence[int]]
    wish: Wish
    elsewhere: Mapping[TopicPartition, Sequence[int]]
    replicas: dict[TopicPartition, list[int]] = field(init=False)
    # Number of replicas by broker, and by topic and broker.
    load: Counter[int] = field(init=False)
    topic_load: Counter[tuple[str, int]] = field(init=False)
    other_load: Counter[int] = field(init=False)
    # Partitions by broker and topic, to find candidates that could leave a broker.
    held: dict[int, dict[str, set[TopicPartition]]] = field(init=False)
    # Move only replicas that must be copied anyway.
    only_new: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.replicas = {partition: list(brokers) for partition, brokers in self.before.items()}
        self.load = Counter()
        self.topic_load = Counter()
        self.held = {broker: {} for broker in self.wish.brokers}
        for partition, brokers in self.replicas.items():
            for broker in brokers:
                self._count(partition, broker, 1)
        self.other_load = Counter(broker for brokers in self.elsewhere.values() for broker in brokers)

    def check(self) -> None:
        if not self.wish.brokers:
            raise Impossible("no broker is left that could have replicas")
        for partition, brokers in self.before.items():
            wanted = self.wish.replication_factor or len(brokers)
            allowed = {*self.wish.brokers, *(broker for broker in brokers if broker in self.wish.keeping)}
            if wanted > len(allowed):
                raise Impossible(
                    f"{partition} would have {wanted} replicas, and only {len(allowed)} "
                    f"{'broker' if len(allowed) == 1 else 'brokers'} could have them "
                    f"({', '.join(map(str, sorted(allowed)))}): add a broker, or lower the replication factor "
                    f"(cordwood reassign plan {partition.topic} --replication-factor {len(allowed)})"
                )

    # Steps of a plan

    def replace_forbidden(self, partition: TopicPartition) -> None:
        for broker in list(self.replicas[partition]):
            if broker not in self.wish.brokers and broker not in self.wish.keeping:
                self._drop_or_replace(partition, broker)

    def resize(self, partition: TopicPartition) -> None:
        replicas = self.replicas[partition]
        wanted = self.wish.replication_factor or len(self.before[partition])
        while len(replicas) > wanted:
            # The preferred leader stays. Of the others, drop one that shares a rack, else the one on the fullest
            # broker.
            broker = max(
                replicas[1:],
                key=lambda each: (self._shares_rack(each, replicas), self.load[each], self.other_load[each], each),
            )
            replicas.remove(broker)
            self._count(partition, broker, -1)
        while len(replicas) < wanted:
            broker = self._best_for(partition, replicas)
            replicas.append(broker)
            self._count(partition, broker, 1)

    def spread_over_racks(self, partition: TopicPartition) -> None:
        replicas = self.replicas[partition]
        while True:
            movable = [broker for broker in replicas if broker in self.wish.brokers]
            doubled = [broker for broker in movable if self._shares_rack(broker, replicas)]
            used = {self._rack(broker) for broker in replicas}
            free = [broker for broker, rack in self.wish.brokers.items() if rack is not None and rack not in used]
            if not doubled or not free:
                return
            source = max(doubled, key=lambda each: (self.load[each], replicas.index(each)))
            target = min(free, key=lambda each: self._fullness(partition, each))
            self._move(partition, source, target)

    def even_out(self, *, only_new: bool = False) -> None:
        self.only_new = only_new
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        """Moves a replica to a broker with at least two fewer. Each such move lowers the imbalance, so the search
        ends."""
        ordered = sorted(self.wish.brokers, key=lambda broker: (self._weight(broker), self.other_load[broker], broker))
        for source in reversed(ordered):
            for target in ordered:
                if self._weight(source) - self._weight(target) < 2:
                    break
                partition = self._movable(source, target)
                if partition is not None:
                    self._move(partition, source, target)
                    return True
        return self._even_out_a_topic()

    def _even_out_a_topic(self) -> bool:
        """Does the same within a topic, between brokers whose totals differ by one."""
        for source in self.wish.brokers:
            for topic, partitions in self.held[source].items():
                for target in self.wish.brokers:
                    gap = self.topic_load[topic, source] - self.topic_load[topic, target]
                    if gap < 2 or self._weight(source) <= self._weight(target):
                        continue
                    for partition in sorted(partitions):
                        if self._may_move(partition, source, target):
                            self._move(partition, source, target)
                            return True
        return False

    def _movable(self, source: int, target: int) -> TopicPartition | None:
        """Yields candidates: topics with the worst spread first, and partitions that are not led here first."""
        topics = sorted(
            self.held[source],
            key=lambda topic: (self.topic_load[topic, target] - self.topic_load[topic, source], topic),
        )
        for topic in topics:
            chosen: TopicPartition | None = None
            for partition in sorted(self.held[source][topic]):
                if self._may_move(partition, source, target):
                    if self.replicas[partition][0] != source:
                        return partition
                    chosen = chosen or partition
            if chosen is not None:
                return chosen
        return None

    def _may_move(self, partition: TopicPartition, source: int, target: int) -> bool:
        replicas = self.replicas[partition]
        if target in replicas or (self.only_new and source in self.before[partition]):
            return False
        others = {self._rack(broker) for broker in replicas if broker != source}
        rack = self._rack(target)
        return rack is None or rack not in others or self._rack(source) in others

    def spread_leaders(self, *, everywhere: bool) -> None:
        """Swaps the first replica with another of the partition while that evens out preferred leaders."""
        leaders = Counter(replicas[0] for replicas in self.replicas.values())
        leaders.update(brokers[0] for brokers in self.elsewhere.values() if brokers)
        changed = [
            partition
            for partition, replicas in self.replicas.items()
            if everywhere or replicas[0] != self.before[partition][0]
        ]
        has_changed = True
        while has_changed:
            has_changed = False
            for partition in changed:
                replicas = self.replicas[partition]
                best = min(replicas, key=lambda broker: leaders[broker])
                if leaders[replicas[0]] - leaders[best] >= 2:
                    leaders[replicas[0]] -= 1
                    leaders[best] += 1
                    at = replicas.index(best)
                    replicas[0], replicas[at] = best, replicas[0]
                    has_changed = True

    # Helpers

    def _weight(self, broker: int) -> int:
        """Weighs brokers by the chosen topics first; new replicas go to the broker with the lowest total."""
        return self.load[broker] + (self.other_load[broker] if self.only_new else 0)

    def _drop_or_replace(self, partition: TopicPartition, broker: int) -> None:
        replicas = self.replicas[partition]
        wanted = self.wish.replication_factor or len(self.before[partition])
        if len(replicas) > wanted:
            replicas.remove(broker)
            self._count(partition, broker, -1)
            return
        others = [each for each in replicas if each != broker]
        self._move(partition, broker, self._best_for(partition, others))

    def _best_for(self, partition: TopicPartition, beside: Sequence[int]) -> int:
        used = Counter(rack for broker in beside if (rack := self._rack(broker)) is not None)
        candidates = [broker for broker in self.wish.brokers if broker not in self.replicas[partition]]
        return min(
            candidates,
            key=lambda broker: (used[self._rack(broker) or ""], self._fullness(partition, broker)),
        )

    def _fullness(self, partition: TopicPartition, broker: int) -> tuple[int, int, int, int]:
        return (
            self.load[broker] + self.other_load[broker],
            self.topic_load[partition.topic, broker],
            self.load[broker],
            broker,
        )

    def _shares_rack(self, broker: int, replicas: Collection[int]) -> bool:
        rack = self._rack(broker)
        return rack is not None and any(self._rack(other) == rack for other in replicas if other != broker)

    def _rack(self, broker: int) -> str | None:
        return self.wish.brokers.get(broker, self.wish.keeping.get(broker))

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        replicas = self.replicas[partition]
        replicas[replicas.index(source)] = target
        self._count(partition, source, -1)
        self._count(partition, target, 1)

    def _count(self, partition: TopicPartition, broker: int, by: int) -> None:
        self.load[broker] += by
        self.topic_load[partition.topic, broker] += by
        partitions = self.held.setdefault(broker, {}).setdefault(partition.topic, set())
        (partitions.add if by > 0 else partitions.discard)(partition)
