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
        """Returns the cluster's id and brokers; with `include_fenced`, also fenced ones (Kafka 4.0+)."""
        return await cluster.describe_cluster(await self._connected(), include_fenced=include_fenced)

    async def describe_controllers(self) -> ClusterDescription:
        """Returns the controllers, as reported by one of them; its listener must be reachable (Kafka 3.9+)."""
        return await cluster.describe_controllers(await self._connected())

    async def describe_features(self) -> list[FeatureLevels]:
        """Returns features with the levels that the cluster uses, and those that a broker supports."""
        return await cluster.describe_features(await self._connected())

    async def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """Raises or lowers the levels of features; either all are changed, or none."""
        wanted = by_name(updates, "updates", "a FeatureUpdate")
        values_of(list(wanted.values()), FeatureUpdate, "updates")
        client = await self._connected()
        values(await cluster.update_features(client, wanted, validate_only=validate_only))

    async def describe_metadata_quorum(self) -> Quorum:
        """Returns the voters and observers of the metadata quorum, its leader, and each replica's progress (KRaft)."""
        return await cluster.describe_quorum(await self._connected())

    async def add_raft_voter(self, voter_id: int, directory_id: Uuid, endpoints: Mapping[str, Address]) -> None:
        """Makes a running, caught-up controller a voter of a dynamic quorum (KIP-853); `endpoints` are the addresses of
        its controller listeners, by name."""
        client = await self._connected()
        await cluster.add_voter(client, number_of(voter_id, "voter_id"), directory_id, endpoints)

    async def remove_raft_voter(self, voter_id: int, directory_id: Uuid) -> None:
        """Removes a controller from the voters of a dynamic quorum (KIP-853)."""
        await cluster.remove_voter(await self._connected(), number_of(voter_id, "voter_id"), directory_id)

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregisters a broker that will not come back (KRaft)."""
        await cluster.unregister_broker(await self._connected(), number_of(broker_id, "broker_id"))

    async def describe_log_dirs(
        self, brokers: Collection[int] | None = None, partitions: Collection[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDir]]:
        """Returns log directories by broker and path, with their replicas; of all brokers or these."""
        broker_ids = None if brokers is None else numbers_of(brokers, "brokers")
        chosen = None if partitions is None else partitions_of(partitions)
        return values(await log_dirs.describe_log_dirs(await self._connected(), broker_ids, chosen))

    async def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        """Returns the directory of each replica, and the target directory of a move."""
        chosen = values_of(replicas, TopicPartitionReplica, "replicas")
        return values(await log_dirs.describe_replica_log_dirs(await self._connected(), chosen))

    async def alter_replica_log_dirs(self, targets: Mapping[TopicPartitionReplica, str]) -> None:
        """Starts to move replicas to other directories of their brokers."""
        mapping_of(targets, "targets", "TopicPartitionReplica with the path of a directory")
        values_of(list(targets), TopicPartitionReplica, "targets")
        values(await log_dirs.alter_replica_log_dirs(await self._connected(), targets))
