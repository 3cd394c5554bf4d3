"""The administrator of a cluster: moves replicas about, changes configurations, and gives topics more partitions."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.partition import Partition, partition_name
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

from .client import Client, Over, Run, by_topic

_MAX_PAUSE_S = 1.0
_TIMEOUT_MS = 2_000
_MAX_PARTITIONS = 4
_MIN_REPLICAS = 2
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
# Small enough that a reassignment takes a while, but larger than the writes between two fetches.
_THROTTLES_BYTES = ("30000", "300000")
_THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_Settings = tuple[tuple[str, tuple[str, ...]], ...]
_TOPIC_SETTINGS: _Settings = (
    ("min.insync.replicas", ("2", "2", "3")),
    ("segment.ms", ("1000", "600000")),
    ("segment.bytes", ("1048576", "1073741824")),
    ("max.message.bytes", ("200000", "1048588")),
)
_LOOSE_SETTINGS: _Settings = (("retention.ms", ("1000", "600000")), ("min.insync.replicas", ("1", "2")))


class ClusterAdmin(Client):
    """An administrator of the topics that the run's clients use. None of its actions loses data."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        assert run.cluster is not None
        self._brokers = list(run.cluster.brokers)
        self._loose = sorted(run.history.replicas.loose)

    async def work(self) -> None:
        actions = (self._reassign, self._reassign, self._reassign, self._cancel, self._configure, self._throttle)
        try:
            while True:
                await self.pause(_MAX_PAUSE_S)
                action = self.source.choice((*actions, self._grow, self._elect))
                try:
                    await action()
                except NetworkError:
                    continue
        except Over:
            return

    # Reassignments

    async def _reassign(self) -> None:
        """Reassigns one or several partitions, to other, more or fewer brokers; also those that are being moved."""
        partitions = self.source.sample(self.run.partitions, self.source.randint(1, len(self.run.partitions)))
        plan: dict[Partition, list[int] | None] = {}
        for partition in partitions:
            count = self.source.randint(_MIN_REPLICAS, min(4, len(self._brokers)))
            plan[partition] = self.source.sample(self._brokers, count)
        await self._carry_out(plan)

    async def _cancel(self) -> None:
        await self._carry_out(dict.fromkeys(self.run.partitions))

    async def _carry_out(self, plan: dict[Partition, list[int] | None]) -> None:
        for partition, replicas in plan.items():
            wanted = "cancelled" if replicas is None else f"to {replicas}"
            self.run.world.trace.note("reassign", partition_name(partition), wanted)
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=plan[topic, index]) for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(plan))
        ]
        await self.ask(AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=_TIMEOUT_MS))

    async def _throttle(self) -> None:
        """Sets or removes the throttle."""
        topic = self.source.choice(self.run.partitions)[0]
        is_set = self.chance(0.6)
        rate = self.source.choice(_THROTTLES_BYTES)
        await self._alter(_BROKER, "", dict.fromkeys(_RATES, rate if is_set else None))
        await self._alter(_TOPIC, topic, dict.fromkeys(_THROTTLED, "*" if is_set else None))

    async def _elect(self) -> None:
        """Elects the preferred replica."""
        topics = [
            TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic(list(self.run.partitions))
        ]
        await self.ask(ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=_TIMEOUT_MS))

    # Topics

    async def _configure(self) -> None:
        if self._loose and self.chance(0.3):
            topic, settings = self.source.choice(self._loose), _LOOSE_SETTINGS
        else:
            topic, settings = self.source.choice(self.run.partitions)[0], _TOPIC_SETTINGS
        name, values = self.source.choice(settings)
        if name == "min.insync.replicas" and self.run.history.replicas.disks_may_go and not self._is_whole(topic):
            return
        await self._alter(_TOPIC, topic, {name: self.source.choice(values)})

    def _is_whole(self, topic: str) -> bool:
        """A change of min.insync.replicas clears the eligible leader replicas, as in Kafka. If the disk of the only
        in-sync replica is lost after that, the other replicas with all committed records are unknown. So in runs that
        lose disks, the minimum is changed only while all replicas are in sync."""
        committed = self.run.committed
        assert committed is not None
        states = [state for (name, _), state in committed.states.items() if name == topic]
        return all({*state.isr} == {*state.replicas} for state in states)

    async def _alter(self, kind: int, name: str, values: dict[str, str | None]) -> None:
        self.run.world.trace.note("configure", name or "all brokers", str(values))
        configs = [
            AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        await self.ask(IncrementalAlterConfigsRequest(resources=[resource]))

    async def _grow(self) -> None:
        topic = self.source.choice(self.run.partitions)[0]
        count = sum(name == topic for name, _ in self.run.partitions) + 1
        if count > _MAX_PARTITIONS:
            return
        self.run.world.trace.note("grow", topic, f"to {count}")
        grown = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        await self.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=_TIMEOUT_MS))
        await self.look(topic)

    async def look(self, topic: str) -> None:
        """Tells the clients about new partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self.ask(request, MetadataRequest.stable_versions.high)
        for described in response.topics:
            found = [(topic, partition.partition_index) for partition in described.partitions]
            self.run.partitions += [partition for partition in sorted(found) if partition not in self.run.partitions]
