"""The client's view of a cluster after Metadata responses."""

import pytest

from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ORDERS = TopicPartition("orders", 0)
ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


def metadata(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    return MetadataResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=node, host="h", port=9000 + node) for node in brokers],
        topics=list(topics),
    )


def topic(
    leader: int, epoch: int, *, name: str = "orders", topic_id: bytes = ID, error: int = ErrorCode.NONE
) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1, 2]
    )
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=[partition])


def test_brokers_and_leaders_are_known_after_a_response() -> None:
    cluster = Cluster().updated(metadata(topic(2, 5)))
    assert (cluster.id, cluster.controller, cluster.leader(ORDERS)) == ("c", 1, 2)
    assert cluster.brokers[2].address == Address("h", 9002)
    assert cluster.topic_name(ID) == "orders"


def test_topics_missing_from_a_response_are_kept() -> None:
    cluster = Cluster().updated(metadata(topic(1, 0))).updated(metadata(topic(2, 0, name="bills")))
    assert set(cluster.topics) == {"orders", "bills"}


def test_a_response_with_all_topics_leaves_no_others() -> None:
    cluster = Cluster().updated(metadata(topic(1, 0)))
    cluster = cluster.updated(metadata(topic(2, 0, name="bills")), has_all_topics=True)
    assert set(cluster.topics) == {"bills"}


def test_a_deleted_topic_is_dropped() -> None:
    cluster = Cluster().updated(metadata(topic(1, 0)))
    gone = topic(1, 0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert cluster.updated(metadata(gone)).topics == {}


def test_a_topic_with_a_passing_error_is_kept_as_it_was() -> None:
    cluster = Cluster().updated(metadata(topic(1, 0)))
    failing = topic(-1, 0, error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert cluster.updated(metadata(failing)).leader(ORDERS) == 1


def test_a_broker_that_lags_does_not_lead_back_to_an_old_leader() -> None:
    cluster = Cluster().updated(metadata(topic(2, 5))).updated(metadata(topic(1, 4)))
    assert cluster.leader(ORDERS) == 2


def test_a_recreated_topic_has_its_own_epochs() -> None:
    cluster = Cluster().updated(metadata(topic(2, 5))).updated(metadata(topic(1, 0, topic_id=OTHER_ID)))
    assert cluster.leader(ORDERS) == 1


def test_no_leader_may_pass() -> None:
    cluster = Cluster().updated(metadata(topic(-1, 5)))
    with pytest.raises(BrokerError, match=r"orders-0: .*LEADER_NOT_AVAILABLE") as caught:
        cluster.leader(ORDERS)
    assert caught.value.retriable


def test_an_unknown_partition_requests_metadata() -> None:
    with pytest.raises(BrokerError, match="orders-7") as caught:
        Cluster().updated(metadata(topic(1, 0))).leader(TopicPartition("orders", 7))
    assert caught.value.is_stale_metadata


def test_a_response_without_brokers_does_not_make_us_forget_ours() -> None:
    cluster = Cluster().updated(metadata()).updated(metadata(brokers=()))
    assert set(cluster.brokers) == {1, 2}
