"""The cluster: its nodes, features and quorum, and the log directories of brokers."""

from collections.abc import Collection, Mapping

from cordwood.client.admin import cluster, log_dirs
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.cluster import ClusterDescription, FeatureLevels, FeatureUpdate, Quorum
from cordwood.client.admin.log_dirs import LogDir, ReplicaLogDirs, TopicPartitionReplica
from cordwood.client.admin.results import values
from cordwood.client.arguments import by_name, mapping_of, number_of, numbers_of, partitions_of, values_of
from cordwood.client.cluster import TopicPartition
from cordwood.runtime.network import Address
from cordwood.wire.primitives import Uuid


class ClusterCalls(Connected):
    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """The cluster's id and brokers; with `include_fenced`, also those that take no part (Kafka 4.0+)."""
        return await cluster.describe_cluster(await self._connected(), include_fenced=include_fenced)

    async def describe_controllers(self) -> ClusterDescription:
        """The controllers, as one of them tells it; its listener must be within reach (Kafka 3.9+)."""
        return await cluster.describe_controllers(await self._connected())

    async def describe_features(self) -> list[FeatureLevels]:
        """Features with the levels that the cluster uses, and those that a broker supports."""
        return await cluster.describe_features(await self._connected())

    async def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """Raises or lowers the levels of features; all of them or none."""
        wanted = by_name(updates, "updates", "a FeatureUpdate")
        values_of(list(wanted.values()), FeatureUpdate, "updates")
        client = await self._connected()
        values(await cluster.update_features(client, wanted, validate_only=validate_only))

    async def describe_metadata_quorum(self) -> Quorum:
        """The voters and observers of the metadata quorum, its leader, and each one's progress (KRaft)."""
        return await cluster.describe_quorum(await self._connected())

    async def add_raft_voter(self, voter_id: int, directory_id: Uuid, endpoints: Mapping[str, Address]) -> None:
        """Makes a controller that runs and has caught up a voter of a dynamic quorum (KIP-853); `endpoints` are where
        its controller listeners are reached, by their names."""
        client = await self._connected()
        await cluster.add_voter(client, number_of(voter_id, "voter_id"), directory_id, endpoints)

    async def remove_raft_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Takes a controller out of the voters of a dynamic quorum (KIP-853)."""
        await cluster.remove_voter(await self._connected(), number_of(voter_id, "voter_id"), directory_id)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forgets a broker that is gone for good (KRaft)."""
        await cluster.unregister_broker(await self._connected(), number_of(broker_id, "broker_id"))

    async def describe_log_dirs(
        self, brokers: Collection[int] | None = None, partitions: Collection[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDir]]:
        """Log directories by broker and path, with their replicas; of all brokers or these."""
        broker_ids = None if brokers is None else numbers_of(brokers, "brokers")
        chosen = None if partitions is None else partitions_of(partitions)
        return values(await log_dirs.describe_log_dirs(await self._connected(), broker_ids, chosen))

    async def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        """In which directory each replica lies, and into which it moves."""
        chosen = values_of(replicas, TopicPartitionReplica, "replicas")
        return values(await log_dirs.describe_replica_log_dirs(await self._connected(), chosen))

    async def alter_replica_log_dirs(self, targets: Mapping[TopicPartitionReplica, str]) -> None:
        """Begins to move replicas into other directories of their brokers."""
        mapping_of(targets, "targets", "TopicPartitionReplica with the path of a directory")
        values_of(list(targets), TopicPartitionReplica, "targets")
        values(await log_dirs.alter_replica_log_dirs(await self._connected(), targets))
