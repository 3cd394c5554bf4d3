"""AlterPartition, by Kafka's rules (KIP-497, KIP-704), and registrations that leave a directory out."""

import pytest

from cordwood.metadata.controller.alter_partition import alter_partition
from cordwood.metadata.controller.directories import assign_replicas_to_dirs
from cordwood.metadata.controller.elections import elect_leaders
from cordwood.metadata.image import LeaderRecovery, PartitionRegistration
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from cordwood.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
)
from cordwood.wire.messages.assign_replicas_to_dirs import RequestPartitionData as AssignedPartition
from cordwood.wire.messages.assign_replicas_to_dirs import RequestTopicData as AssignedTopic
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.primitives import Uuid
from tests.metadata.cluster import Cluster, directory_of, response_of, topic


def partition_of(cluster: Cluster, index: int = 0) -> PartitionRegistration:
    found = cluster.image.topics.partition("t", index)
    assert found is not None
    return found


def alter(cluster: Cluster, broker_id: int, isr: list[int], **fields: int) -> tuple[list[str], ResponsePartitionData]:
    """By a broker that knows the partition as it is, unless `fields` say otherwise."""
    before, brokers = partition_of(cluster), cluster.image.brokers
    asked = RequestPartitionData(
        leader_epoch=before.leader_epoch,
        partition_epoch=before.partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=id_, broker_epoch=brokers[id_].epoch if id_ in brokers else -1) for id_ in isr
        ],
        leader_recovery_state=before.leader_recovery,
    )
    for name, value in fields.items():
        setattr(asked, name, value)
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=brokers[broker_id].epoch,
        topics=[RequestTopicData(topic_id=cluster.image.topics.ids["t"], partitions=[asked])],
    )
    records, response = cluster.apply(alter_partition(cluster.image, request, cluster.defaults))
    assert response.error_code == ErrorCode.NONE
    return records, response.topics[0].partitions[0]


def of_three() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create(topic("t", assignments={0: [1, 2, 3]}))
    return cluster


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    cluster = of_three()
    records, answer = alter(cluster, 1, [1, 2])
    assert records == ["PartitionChange t-0 isr=[1, 2]"]
    after = partition_of(cluster)
    assert (answer.isr, answer.leader_id) == ([1, 2], 1)
    assert (answer.leader_epoch, answer.partition_epoch) == (after.leader_epoch, after.partition_epoch)
    assert alter(cluster, 1, [1, 2, 3])[0] == ["PartitionChange t-0 isr=[1, 2, 3]"]
    assert alter(cluster, 1, [1, 2, 3])[0] == [], "nothing changes"


@pytest.mark.parametrize(
    ("broker_id", "isr", "fields", "error"),
    [
        (1, [1, 2], {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, [1, 2], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (1, [1, 2], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (2, [1, 2], {}, ErrorCode.INVALID_REQUEST),
        (1, [2, 3], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 1], {}, ErrorCode.INVALID_REQUEST),
        (1, [1, 4], {}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, [1], {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (1, [1, 2], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_requests_to_a_leader_are_refused(
    broker_id: int, isr: list[int], fields: dict[str, int], error: ErrorCode
) -> None:
    records, answer = alter(of_three(), broker_id, isr, **fields)
    assert (records, ErrorCode(answer.error_code)) == ([], error)


def test_a_fenced_broker_and_an_earlier_incarnation_cannot_join_an_isr() -> None:
    cluster = of_three()
    stale = BrokerState(broker_id=3, broker_epoch=cluster.image.brokers[3].epoch - 1)
    leader = BrokerState(broker_id=1, broker_epoch=-1)
    assert alter(cluster, 1, [], new_isr_with_epochs=[leader, stale])[1].error_code == ErrorCode.INELIGIBLE_REPLICA  # type: ignore[arg-type]
    cluster.heartbeat(3, want_fence=True)
    records, answer = alter(cluster, 1, [1, 2, 3])
    assert (records, answer.error_code) == ([], ErrorCode.INELIGIBLE_REPLICA)


def test_a_replica_in_a_failed_directory_cannot_join_an_isr_again() -> None:
    """Its broker is up, and its last fetch from before the failure may be late."""
    cluster = of_three()
    good, bad = directory_of(3), directory_of(103)
    cluster.start(3, 1, log_dirs=[good, bad])
    topic_id = cluster.image.topics.ids["t"]
    assigned = AssignedTopic(topic_id=topic_id, partitions=[AssignedPartition(partition_index=0)])
    request = AssignReplicasToDirsRequest(
        broker_id=3,
        broker_epoch=cluster.image.brokers[3].epoch,
        directories=[RequestDirectoryData(id=bad, topics=[assigned])],
    )
    cluster.apply(assign_replicas_to_dirs(cluster.image, request, cluster.defaults))
    assert alter(cluster, 1, [1, 2, 3])[1].error_code == ErrorCode.NONE
    cluster.heartbeat(3, offline_log_dirs=[bad])
    assert partition_of(cluster).isr == (1, 2)
    records, answer = alter(cluster, 1, [1, 2, 3])
    assert (records, answer.error_code) == ([], ErrorCode.INELIGIBLE_REPLICA)


def test_a_leader_that_was_not_in_sync_recovers() -> None:
    cluster = Cluster(brokers=2, elr=False)
    cluster.create(topic("t", assignments={0: [1, 2]}))
    cluster.heartbeat(2, want_fence=True)
    cluster.heartbeat(1, want_fence=True)
    cluster.heartbeat(2)
    election = ElectLeadersRequest(election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
    cluster.apply(elect_leaders(cluster.image, election, cluster.defaults))
    assert partition_of(cluster).leader_recovery is LeaderRecovery.RECOVERING
    assert alter(cluster, 2, [2], leader_recovery_state=0)[0] == ["PartitionChange t-0 leader_recovery_state=0"]
    assert partition_of(cluster).leader_recovery is LeaderRecovery.RECOVERED


def test_a_stale_broker_and_an_unknown_topic_are_refused() -> None:
    cluster = of_three()
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0)
    assert response_of(alter_partition(cluster.image, request, cluster.defaults)).error_code == (
        ErrorCode.STALE_BROKER_EPOCH
    )
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].epoch,
        topics=[RequestTopicData(topic_id=bytes(16), partitions=[RequestPartitionData()])],
    )
    (answers,) = response_of(alter_partition(cluster.image, request, cluster.defaults)).topics
    assert answers.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# A directory that is missing


def test_a_broker_that_comes_back_without_a_directory_leads_nothing_in_it() -> None:
    cluster = Cluster(brokers=0)
    kept, lost = directory_of(1), directory_of(101)
    cluster.start(1, log_dirs=[kept, lost])
    cluster.create(topic("t", 2))
    epoch = cluster.image.brokers[1].epoch
    assign(cluster, 1, kept, lost)
    cluster.start(1, number=1, log_dirs=[kept], previous_broker_epoch=epoch)
    assert [partition_of(cluster, index).leader for index in (0, 1)] == [1, -1]
    assert partition_of(cluster, 1).elr == (1,), "it stopped cleanly, and has all that was committed"


def test_a_replica_that_was_moved_into_a_directory_that_has_failed_meanwhile_leads_no_more() -> None:
    cluster = Cluster(brokers=0)
    good, bad = directory_of(1), directory_of(101)
    cluster.start(1, log_dirs=[good, bad])
    cluster.start(2)
    cluster.create(topic("t", 2, 2))
    assert {partition_of(cluster, index).leader for index in (0, 1)} == {1, 2}
    assign(cluster, 1, good, good)
    cluster.heartbeat(1, offline_log_dirs=[bad])
    assign(cluster, 1, bad, bad)
    for index in (0, 1):
        assert partition_of(cluster, index).directory_of(1) == bad
        assert (partition_of(cluster, index).leader, partition_of(cluster, index).isr) == (2, (2,))
    assert assign(cluster, 1, bad, bad) == []


def assign(cluster: Cluster, broker_id: int, *directories: Uuid) -> list[str]:
    """The broker says in which directory it has each partition of the topic."""
    topic_id = cluster.image.topics.ids["t"]
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[broker_id].epoch,
        directories=[
            RequestDirectoryData(
                id=directory,
                topics=[AssignedTopic(topic_id=topic_id, partitions=[AssignedPartition(partition_index=index)])],
            )
            for index, directory in enumerate(directories)
        ],
    )
    return cluster.commit(assign_replicas_to_dirs(cluster.image, request, cluster.defaults).records)
