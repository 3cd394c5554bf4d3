"""Partitions that move to other brokers (KIP-455), as transcripts: a plan, what it writes, and how it ends."""

import pytest

from cordwood.metadata.controller.alter_partition import alter_partition
from cordwood.metadata.controller.brokers import fence_broker
from cordwood.metadata.controller.decision import ControllerDefaults
from cordwood.metadata.controller.reassignment import alter_partition_reassignments, list_partition_reassignments
from cordwood.metadata.image import PartitionRegistration
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cordwood.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.metadata.cluster import Cluster, response_of, topic


def cluster_with(*replicas: int, unclean: str = "false") -> Cluster:
    cluster = Cluster(brokers=6)
    cluster.create(topic("t", assignments={0: list(replicas)}, unclean_leader_election_enable=unclean))
    return cluster


def partition(cluster: Cluster) -> PartitionRegistration:
    found = cluster.image.topics.partition("t", 0)
    assert found is not None
    return found


def reassign(
    cluster: Cluster, replicas: list[int] | None, name: str = "t", index: int = 0, **fields: object
) -> tuple[list[str], int]:
    """The records, and the error."""
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        ]
    )
    for field, value in fields.items():
        setattr(request, field, value)
    decision = alter_partition_reassignments(cluster.image, request, cluster.defaults)
    records = cluster.commit(decision.records)
    return records, response_of(decision).responses[0].partitions[0].error_code


def in_sync(cluster: Cluster, *isr: int) -> tuple[list[str], int]:
    """The leader reports the in-sync replicas."""
    now = partition(cluster)
    found = cluster.image.topics.get("t")
    assert found is not None
    asked = RequestPartitionData(
        partition_index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=replica, broker_epoch=cluster.image.brokers[replica].epoch) for replica in isr
        ],
    )
    request = AlterPartitionRequest(
        broker_id=now.leader,
        broker_epoch=cluster.image.brokers[now.leader].epoch,
        topics=[RequestTopicData(topic_id=found.id, partitions=[asked])],
    )
    decision = alter_partition(cluster.image, request, cluster.defaults)
    records = cluster.commit(decision.records)
    return records, response_of(decision).topics[0].partitions[0].error_code


def test_replicas_are_added_and_the_plan_is_complete_when_they_are_in_sync() -> None:
    cluster = cluster_with(1, 2)
    assert reassign(cluster, [1, 2, 3]) == (["PartitionChange t-0 replicas=[1, 2, 3] adding_replicas=[3]"], 0)
    assert partition(cluster).leader_epoch == 0, "the leader goes on"
    assert in_sync(cluster, 1, 2, 3) == (["PartitionChange t-0 isr=[1, 2, 3] adding_replicas=[]"], 0)
    assert not partition(cluster).is_reassigning


def test_replicas_that_are_removed_go_at_once_when_the_others_are_in_sync() -> None:
    cluster = cluster_with(1, 2, 3)
    assert reassign(cluster, [1, 2]) == (["PartitionChange t-0 isr=[1, 2] leader=1 replicas=[1, 2]"], 0)
    assert partition(cluster).leader_epoch == 1, "a replica that is gone is told by a new epoch"


def test_a_swap_ends_with_the_new_replicas_alone_and_with_a_leader_of_them() -> None:
    cluster = cluster_with(1, 2)
    assert reassign(cluster, [3, 4]) == (
        ["PartitionChange t-0 replicas=[3, 4, 1, 2] removing_replicas=[1, 2] adding_replicas=[3, 4]"],
        0,
    )
    assert in_sync(cluster, 1, 2, 3) == (["PartitionChange t-0 isr=[1, 2, 3]"], 0)
    assert in_sync(cluster, 1, 2, 3, 4) == (
        ["PartitionChange t-0 isr=[3, 4] leader=3 replicas=[3, 4] removing_replicas=[] adding_replicas=[]"],
        ErrorCode.NEW_LEADER_ELECTED,
    )


def test_a_plan_that_only_changes_the_order_is_complete_at_once() -> None:
    cluster = cluster_with(1, 2, 3)
    assert reassign(cluster, [3, 1, 2]) == (["PartitionChange t-0 replicas=[3, 1, 2]"], 0)
    assert partition(cluster).preferred_replica == 3


def test_a_new_replica_gets_the_directory_of_a_broker_that_has_one() -> None:
    cluster = cluster_with(1)
    reassign(cluster, [2, 1])
    now = partition(cluster)
    assert now.directory_of(2) == cluster.image.brokers[2].log_dirs[0]
    assert now.directory_of(1) == cluster.image.brokers[1].log_dirs[0]


def test_cancelling_brings_the_old_replicas_back() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, [3, 2])
    in_sync(cluster, 1, 2)
    assert reassign(cluster, None) == (
        ["PartitionChange t-0 leader=1 replicas=[2, 1] removing_replicas=[] adding_replicas=[]"],
        0,
    )
    assert reassign(cluster, None) == ([], ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


def test_cancelling_takes_new_replicas_out_of_the_isr() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, [3, 4])
    in_sync(cluster, 1, 2, 3)
    reassign(cluster, None)
    assert (partition(cluster).replicas, partition(cluster).isr) == ((1, 2), (1, 2))


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_cancelling_is_refused_when_only_new_replicas_are_in_sync_unless_records_may_be_lost(unclean: str) -> None:
    cluster = cluster_with(1, unclean=unclean)
    reassign(cluster, [2, 3])
    in_sync(cluster, 1, 2)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    assert partition(cluster).isr == (2,)
    _, error = reassign(cluster, None)
    assert error == (ErrorCode.NONE if unclean == "true" else ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_replacing_a_running_plan_drops_moves_of_the_old_one_only() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, [3, 4])
    assert reassign(cluster, [4, 5]) == (
        ["PartitionChange t-0 leader=1 replicas=[4, 5, 1, 2] adding_replicas=[4, 5]"],
        0,
    )
    in_sync(cluster, 1, 2, 4, 5)
    assert (partition(cluster).replicas, partition(cluster).isr) == ((4, 5), (4, 5))


def test_a_plan_back_to_the_old_replicas_ends_the_running_one() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, [2, 3])
    reassign(cluster, [1, 2])
    now = partition(cluster)
    assert (now.replicas, now.is_reassigning) == ((1, 2), False)


def test_cancelling_the_second_plan_restores_the_original_replicas() -> None:
    cluster = cluster_with(1, 2)
    reassign(cluster, [3, 4])
    in_sync(cluster, 1, 2, 3)
    reassign(cluster, [3, 5])
    reassign(cluster, None)
    assert (partition(cluster).replicas, partition(cluster).isr) == ((1, 2), (1, 2))


def test_a_replica_that_alone_is_in_sync_is_kept_until_another_one_is() -> None:
    cluster = cluster_with(1)
    reassign(cluster, [2, 3])
    in_sync(cluster, 1, 2)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    reassign(cluster, [4, 5])
    now = partition(cluster)
    assert (now.leader, now.isr, now.removing_replicas) == (2, (2,), (1, 2))
    in_sync(cluster, 2, 4, 5)
    assert partition(cluster).replicas == (4, 5)


def test_replicas_that_may_alone_have_all_records_are_kept_until_another_one_is_in_sync() -> None:
    cluster = cluster_with(1, 5)
    reassign(cluster, [2, 3])
    in_sync(cluster, 1, 2)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 2))
    assert (partition(cluster).elr, partition(cluster).last_known_elr) == ((2,), (2,))
    reassign(cluster, [4, 5])
    now = partition(cluster)
    assert (now.isr, now.elr, now.removing_replicas) == ((), (2,), (1, 2))
    cluster.heartbeat(2)
    in_sync(cluster, 2, 4, 5)
    assert (partition(cluster).replicas, partition(cluster).isr) == ((4, 5), (4, 5))


def with_the_last_leader_new() -> Cluster:
    """Nobody is in sync; an old replica is eligible, and a new one led last and is not eligible any more."""
    cluster = Cluster(brokers=6, defaults=ControllerDefaults(min_insync_replicas=2))
    cluster.create(topic("t", assignments={0: [1, 2]}))
    reassign(cluster, [3, 4])
    in_sync(cluster, 1, 3)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    assert partition(cluster).leader == 3
    # Killed, and started again with an empty disk.
    cluster.register(3, number=1)
    now = partition(cluster)
    assert (now.isr, now.elr, now.last_known_elr) == ((), (1,), (3,))
    return cluster


def test_the_last_leader_is_kept_while_no_replica_is_in_sync() -> None:
    cluster = with_the_last_leader_new()
    reassign(cluster, [1, 2])
    now = partition(cluster)
    assert (now.replicas, now.removing_replicas) == ((1, 2, 3), (3,))
    # The one that was eligible has lost data as well.
    cluster.register(1, number=1)
    cluster.heartbeat(3)
    assert partition(cluster).leader == 3


def test_cancelling_is_refused_when_the_last_leader_is_new_and_no_replica_is_in_sync() -> None:
    assert reassign(with_the_last_leader_new(), None) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def test_the_broker_that_is_last_in_sync_may_be_added_while_others_are_dead() -> None:
    cluster = cluster_with(1, 2, 3)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 3))
    reassign(cluster, [1, 2])
    assert partition(cluster).replicas == (1, 2), "a dead replica can be removed"


def test_plans_that_cannot_be_are_refused() -> None:
    cluster = cluster_with(1, 2)
    assert reassign(cluster, [1], name="u") == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert reassign(cluster, [1], index=7) == ([], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert reassign(cluster, []) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert reassign(cluster, [1, 1]) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert reassign(cluster, [1, 77]) == ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert reassign(cluster, [1], allow_replication_factor_change=False) == ([], ErrorCode.INVALID_REPLICATION_FACTOR)
    assert reassign(cluster, [2, 1]) == (["PartitionChange t-0 replicas=[2, 1]"], 0)


def test_moves_in_progress_are_listed() -> None:
    cluster = cluster_with(1, 2)
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert list_partition_reassignments(cluster.image, everything).topics == []
    reassign(cluster, [2, 3])
    listed = list_partition_reassignments(cluster.image, everything).topics
    assert [found.name for found in listed] == ["t"]
    ongoing = listed[0].partitions[0]
    assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ([2, 3, 1], [3], [1])
    for names in (["u"], ["t"]):
        asked = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[1]) for name in names]
        assert list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=asked)).topics == []
