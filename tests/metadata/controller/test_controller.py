"""The controller's decisions as transcripts: a request, the records, and what the image says then."""

from collections.abc import Callable

import pytest

from cordwood.metadata.controller.brokers import (
    Contact,
    broker_heartbeat,
    fence_broker,
    register_broker,
    unregister_broker,
)
from cordwood.metadata.controller.configs import alter_configs, incremental_alter_configs
from cordwood.metadata.controller.decision import ConfigSchema, ControllerDefaults
from cordwood.metadata.controller.elections import elect_leaders
from cordwood.metadata.controller.features import update_features
from cordwood.metadata.controller.placement import place_replicas
from cordwood.metadata.controller.producer_ids import allocate_producer_ids
from cordwood.metadata.controller.topics import create_partitions, delete_topics
from cordwood.metadata.image import BROKER_DEFAULT, PartitionRegistration, broker_resource, topic_resource
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_configs as legacy
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from cordwood.wire.messages.create_topics import CreatableTopic
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest
from cordwood.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.metadata.cluster import CLUSTER_ID, Cluster, directory_of, response_of, topic


def partition(cluster: Cluster, name: str = "t", number: int = 0) -> PartitionRegistration:
    found = cluster.image.topics.partition(name, number)
    assert found is not None
    return found


# CreateTopics


def test_a_topic_is_created_with_the_defaults() -> None:
    cluster = Cluster(defaults=ControllerDefaults(num_partitions=2))
    records, response = cluster.create(topic("t", retention_ms="5"))
    assert records == [
        "Topic t name=t",
        "Config resource_type=2 resource_name=t name=retention.ms value=5",
        "Partition t-0 replicas=[1] isr=[1] leader=1 leader_epoch=0 partition_epoch=0",
        "Partition t-1 replicas=[1] isr=[1] leader=1 leader_epoch=0 partition_epoch=0",
    ]
    result = response.topics[0]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    assert result.topic_id == cluster.image.topics.ids["t"]
    assert partition(cluster).directories == (directory_of(1),)


def test_validate_only_writes_nothing_and_answers_the_same() -> None:
    cluster = Cluster()
    records, response = cluster.create(topic("t", 3), topic("bad name"), validate_only=True)
    assert records == []
    assert [result.error_code for result in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert response.topics[0].num_partitions == 3


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
        (topic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION, "characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (topic("is_there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'is_there' already exists."),
        (
            topic("is.there"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'is.there' collides with existing topic: is_there",
        ),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "internal topic __cluster_metadata is prohibited"),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0"),
        (
            topic("t", 1, 3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
            "because only 2 broker(s) are registered or some brokers have",
        ),
        (topic("t", 10_001), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
        (topic("t", 1, a=None), ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: a"),
        (topic("t", 1, bad="x"), ErrorCode.INVALID_CONFIG, "bad is bad"),
        (topic("t", -1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
        (topic("t", 1, -1, {0: [1]}), ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
        (topic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (topic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        (topic("t", assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker is registered"),
        (topic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        (
            topic("t", assignments={0: [1], 1: [1, 2]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s)",
        ),
    ],
)
def test_a_topic_is_refused_alone(asked: CreatableTopic, error: ErrorCode, message: str) -> None:
    cluster = Cluster(brokers=2)
    cluster.schema = ConfigSchema(
        check=lambda _, config: Refusal(ErrorCode.INVALID_CONFIG, "bad is bad") if "bad" in config else None
    )
    cluster.create(topic("is_there", 1))
    is_whole_request = error is ErrorCode.POLICY_VIOLATION
    records, response = cluster.create(asked, topic("fine", 1))
    refused, fine = response.topics
    assert refused.error_code == error
    assert message in (refused.error_message or "")
    assert (fine.error_code == 0) is not is_whole_request
    assert bool(records) is not is_whole_request


def test_a_name_that_is_requested_twice_is_not_created() -> None:
    records, response = Cluster().create(topic("t", 1), topic("t", 2))
    assert records == []
    assert [(result.error_code, result.error_message) for result in response.topics] == [
        (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    ]


def test_a_manual_assignment_is_led_by_its_first_active_replica() -> None:
    cluster = Cluster(brokers=3)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 3))
    records, _ = cluster.create(topic("t", assignments={0: [3, 2, 1], 1: [1, 3, 2]}))
    assert records[1:] == [
        "Partition t-0 replicas=[3, 2, 1] isr=[2, 1] leader=2 leader_epoch=0 partition_epoch=0",
        "Partition t-1 replicas=[1, 3, 2] isr=[1, 2] leader=1 leader_epoch=0 partition_epoch=0",
    ]


def test_without_an_active_broker_nothing_is_created() -> None:
    cluster = Cluster()
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    _, response = cluster.create(topic("a", 1), topic("b", assignments={0: [1]}))
    assert [result.error_message for result in response.topics] == [
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
        "shutdown.",
    ]


# Placement


def test_replicas_are_spread_over_brokers_and_racks() -> None:
    cluster = Cluster(brokers=0)
    for broker_id in range(1, 7):
        cluster.start(broker_id, rack=f"rack-{broker_id % 3}")
    placed = place_replicas(cluster.image, cluster.random, 18, 3)
    assert all(len({broker % 3 for broker in replicas}) == 3 for replicas in placed)
    for position in range(3):
        counts = [sum(replicas[position] == broker for replicas in placed) for broker in range(1, 7)]
        assert max(counts) - min(counts) <= 3
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(broker) for broker in range(1, 7)} == {3}


def test_fenced_brokers_come_last_and_never_lead() -> None:
    cluster = Cluster(brokers=3)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 2))
    for replicas in place_replicas(cluster.image, cluster.random, 9, 3):
        assert replicas[-1] == 2
    for replicas in place_replicas(cluster.image, cluster.random, 9, 2):
        assert 2 not in replicas


def test_a_broker_gets_no_replicas_while_all_its_directories_are_cordoned() -> None:
    """KIP-1066."""
    cluster = Cluster(brokers=3)
    cluster.heartbeat(2, cordoned_log_dirs=[directory_of(2)])
    assert {broker for replicas in place_replicas(cluster.image, cluster.random, 9, 2) for broker in replicas} == {1, 3}
    with pytest.raises(Refusal) as refused:
        place_replicas(cluster.image, cluster.random, 1, 3)
    assert refused.value.error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered or some brokers have all their log directories cordoned" in str(
        refused.value
    )
    cluster.heartbeat(2, cordoned_log_dirs=[])
    assert any(2 in replicas for replicas in place_replicas(cluster.image, cluster.random, 9, 2))


def test_a_broker_with_one_directory_that_is_not_cordoned_gets_replicas() -> None:
    cluster = Cluster(brokers=0)
    other = bytes([7]) * 16
    cluster.start(1, log_dirs=[directory_of(1), other])
    cluster.heartbeat(1, cordoned_log_dirs=[other])
    assert place_replicas(cluster.image, cluster.random, 1, 1) == [(1,)]


# DeleteTopics, CreatePartitions


def test_topics_are_deleted_by_name_or_id_and_each_refusal_reports_why() -> None:
    cluster = Cluster()
    cluster.create(*(topic(name, 1) for name in "abc"))
    id_of = dict(cluster.image.topics.ids)
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name="a"),
            DeleteTopicState(topic_id=id_of["b"]),
            DeleteTopicState(name="c"),
            DeleteTopicState(name="c"),
            DeleteTopicState(name="x"),
            DeleteTopicState(topic_id=bytes(range(16))),
            DeleteTopicState(),
            DeleteTopicState(name="a", topic_id=id_of["a"]),
        ]
    )
    records, response = cluster.apply(delete_topics(cluster.image, request))
    assert records == ["RemoveTopic", "RemoveTopic"]
    assert [(result.name, ErrorCode(result.error_code).name) for result in response.responses] == [
        ("a", "NONE"),
        ("b", "NONE"),
        ("c", "INVALID_REQUEST"),
        ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
        (None, "UNKNOWN_TOPIC_ID"),
        (None, "INVALID_REQUEST"),
        ("a", "INVALID_REQUEST"),
    ]
    assert list(cluster.image.topics.ids) == ["c"]


def test_the_names_of_old_requests_are_deleted_too() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 1))
    records, response = cluster.apply(delete_topics(cluster.image, DeleteTopicsRequest(topic_names=["a"])))
    assert records == ["RemoveTopic"]
    assert response.responses[0].error_code == 0


def test_partitions_are_added_behind_those_that_are_there() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("t", 1, 1))
    asked = [
        (CreatePartitionsTopic(name="t", count=1, assignments=None), "Topic already has 1 partition(s)."),
        (CreatePartitionsTopic(name="t", count=0, assignments=None), "0 would not be an increase"),
        (CreatePartitionsTopic(name="u", count=2, assignments=None), ""),
        (
            CreatePartitionsTopic(name="t", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[2])]),
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            CreatePartitionsTopic(name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])]),
            "2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s)",
        ),
    ]
    for request, message in asked:
        records, response = cluster.apply(
            create_partitions(cluster.image, CreatePartitionsRequest(topics=[request]), cluster.random)
        )
        assert records == []
        assert message in (response.results[0].error_message or "")
    request = CreatePartitionsTopic(name="t", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[2])])
    records, _ = cluster.apply(
        create_partitions(cluster.image, CreatePartitionsRequest(topics=[request]), cluster.random)
    )
    assert records == ["Partition t-1 replicas=[2] isr=[2] leader=2 leader_epoch=0 partition_epoch=0"]


# Configuration


def alter(
    cluster: Cluster, resource_type: int, name: str, *changes: tuple[str, int, str | None]
) -> tuple[list[str], str | None]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
            )
        ]
    )
    records, response = cluster.apply(incremental_alter_configs(cluster.image, request, cluster.schema))
    return records, response.responses[0].error_message


SET, DELETE, APPEND, SUBTRACT = range(4)


def test_a_topics_configuration_is_changed_key_by_key() -> None:
    cluster = Cluster()
    cluster.schema = ConfigSchema(is_list=lambda _, name: name == "cleanup.policy", default=lambda *_: "delete")
    cluster.create(topic("t", 1, a="1"))
    records, error = alter(cluster, 2, "t", ("a", SET, "1"), ("cleanup.policy", APPEND, "compact,delete"))
    assert error is None
    assert records == ["Config resource_type=2 resource_name=t name=cleanup.policy value=delete,compact"]
    alter(cluster, 2, "t", ("cleanup.policy", SUBTRACT, "delete"), ("a", DELETE, None))
    assert cluster.image.config(topic_resource("t")) == {"cleanup.policy": "compact"}


def test_changes_that_cannot_be_are_refused() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    for resource_type, name, changes, message in (
        (2, "u", [("a", SET, "1")], "The topic 'u' does not exist."),
        (4, "9", [("a", SET, "1")], "No node with id 9 found."),
        (4, "x", [("a", SET, "1")], "Invalid broker name x"),
        (2, "t", [("a", SET, None)], "Null value not supported for : a"),
        (2, "t", [("a", SET, "1"), ("a", SET, "2")], "Error due to duplicate config keys"),
        (2, "t", [("a", APPEND, "1")], "Can't APPEND to key a because its type is not LIST."),
        (2, "t", [("a", 7, "1")], "Unknown config operation 7"),
        (4, "1", [("min.insync.replicas", SET, "1")], "Broker-level min.insync.replicas cannot be altered"),
        (4, "", [("min.insync.replicas", DELETE, None)], "Cluster-level min.insync.replicas cannot be removed"),
    ):
        records, error = alter(cluster, resource_type, name, *changes)
        assert records == []
        assert message in (error or "")


def test_a_brokers_configuration_is_written_again_so_that_it_reloads() -> None:
    cluster = Cluster()
    alter(cluster, 4, "1", ("ssl.keystore.location", SET, "k"))
    records, _ = alter(cluster, 4, "1", ("ssl.keystore.location", SET, "k"))
    assert len(records) == 1
    assert cluster.image.config(broker_resource(1)) == {"ssl.keystore.location": "k"}


def test_a_new_min_insync_replicas_clears_eligible_leaders() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    assert alter(cluster, 2, "t", ("min.insync.replicas", SET, "2"))[0][-1] == "ClearElr topic_name=t"
    assert alter(cluster, 4, "", ("min.insync.replicas", SET, "2"))[0][-1] == "ClearElr"
    assert cluster.image.config(BROKER_DEFAULT) == {"min.insync.replicas": "2"}


def test_a_new_minimum_in_sync_keeps_eligible_replicas_of_partitions_without_in_sync_replicas() -> None:
    cluster = Cluster(brokers=3, defaults=ControllerDefaults(min_insync_replicas=2))
    cluster.create(topic("t", assignments={0: [1, 2], 1: [2, 3]}), topic("u", assignments={0: [1, 2]}))
    for broker_id in (1, 2):
        cluster.commit(fence_broker(cluster.image, cluster.defaults, broker_id))
    kept = "eligible_leader_replicas=[1, 2] last_known_elr=[2]"
    records, _ = alter(cluster, 2, "t", ("min.insync.replicas", SET, "1"))
    assert records[1:] == ["ClearElr topic_name=t", f"PartitionChange t-0 {kept}"]
    assert partition(cluster, number=1).elr == ()
    records, _ = alter(cluster, 4, "", ("min.insync.replicas", SET, "3"))
    assert records[1:] == ["ClearElr", f"PartitionChange t-0 {kept}", f"PartitionChange u-0 {kept}"]
    # One is enough now: the new leader commits alone, and no other replica is eligible any more.
    cluster.heartbeat(1)
    now = partition(cluster)
    assert (now.leader, now.isr, now.elr) == (1, (1,), ())


def test_alter_configs_replaces_the_whole_configuration() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1, a="1", b="2"))
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[legacy.AlterableConfig(name="b", value="3")]
            )
        ]
    )
    records, _ = cluster.apply(alter_configs(cluster.image, request, cluster.schema))
    assert records == [
        "Config resource_type=2 resource_name=t name=b value=3",
        "Config resource_type=2 resource_name=t name=a value=None",
    ]
    assert cluster.image.config(topic_resource("t")) == {"b": "3"}


# Features


def update(cluster: Cluster, name: str, level: int, upgrade_type: int = 1) -> tuple[list[str], str | None]:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)]
    )
    records, response = cluster.apply(update_features(cluster.image, request, 1, cluster.defaults))
    return records, response.error_message


def test_features_change_within_the_levels_that_all_nodes_support() -> None:
    cluster = Cluster()
    assert update(cluster, "group.version", 0, 2)[0] == ["FeatureLevel name=group.version"]
    assert "group.version" not in cluster.image.features
    assert update(cluster, "group.version", 1)[0] == ["FeatureLevel name=group.version feature_level=1"]


def test_a_finalized_feature_that_is_not_served_can_be_taken_back() -> None:
    cluster = Cluster()
    cluster.commit([FeatureLevelRecord(name="share.version", feature_level=1)])
    assert update(cluster, "share.version", 0, 2)[0] == ["FeatureLevel name=share.version"]
    assert "share.version" not in cluster.image.features


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type", "message"),
    [
        ("group.version", 2, 1, "Local controller 1 only supports versions 0-1"),
        ("no.version", 1, 1, "Local controller 1 does not support this feature."),
        ("no.version", 0, 2, "Feature no.version not found."),
        ("share.version", 1, 1, "Local controller 1 does not support this feature."),
        ("streams.version", 1, 1, "Local controller 1 does not support this feature."),
        ("group.version", 0, 1, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("group.version", -1, 1, "A feature version cannot be less than 0."),
        ("group.version", 1, 9, "The controller does not support the given upgrade type."),
        (
            "metadata.version",
            29,
            2,
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested",
        ),
        ("metadata.version", 29, 3, "Unsafe metadata downgrade is not supported in this version."),
        ("metadata.version", 31, 1, "only supports versions 7-30"),
        ("kraft.version", 0, 2, "Can't downgrade the version of this feature."),
    ],
)
def test_an_update_that_cannot_be_fails_as_a_whole(name: str, level: int, upgrade_type: int, message: str) -> None:
    records, error = update(Cluster(), name, level, upgrade_type)
    assert records == []
    assert message in (error or "")


def upgrade_kraft(upgrade: Callable[[int], None], *also: FeatureUpdateKey) -> tuple[int, list[str]]:
    cluster = Cluster()
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    request = UpdateFeaturesRequest(feature_updates=[key, *also])
    records, response = cluster.apply(
        update_features(cluster.image, request, 1, cluster.defaults, kraft_version=0, upgrade_kraft_version=upgrade)
    )
    return response.error_code, records


def test_kraft_version_is_upgraded_without_a_record_of_this_log() -> None:
    upgrades: list[int] = []
    assert upgrade_kraft(upgrades.append) == (ErrorCode.NONE, [])
    assert upgrades == [1]


def test_kraft_version_stays_if_another_feature_or_the_voters_refuse() -> None:
    upgrades: list[int] = []
    refused = FeatureUpdateKey(feature="metadata.version", max_version_level=99, upgrade_type=1)
    assert upgrade_kraft(upgrades.append, refused) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert upgrades == []

    def unknown_directory(_level: int) -> None:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION, "The directory id of some voter isn't known yet")

    lower = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    assert upgrade_kraft(unknown_directory, lower) == (ErrorCode.INVALID_UPDATE_VERSION, [])


def test_eligible_leader_replicas_begin_with_one_minimum_for_the_cluster() -> None:
    cluster = Cluster(elr=False, defaults=ControllerDefaults(min_insync_replicas=2))
    alter(cluster, 4, "1", ("min.insync.replicas", SET, "3"))
    records, _ = update(cluster, "eligible.leader.replicas.version", 1)
    assert records == [
        "FeatureLevel name=eligible.leader.replicas.version feature_level=1",
        "Config resource_type=4 name=min.insync.replicas value=2",
        "Config resource_type=4 resource_name=1 name=min.insync.replicas value=None",
    ]
    assert cluster.image.config(BROKER_DEFAULT) == {"min.insync.replicas": "2"}
    assert broker_resource(1) not in cluster.image.configs


# Brokers


def test_a_broker_registers_catches_up_and_is_unfenced() -> None:
    cluster = Cluster(brokers=0)
    cluster.register(1)
    assert cluster.image.brokers[1].fenced
    epoch = cluster.image.brokers[1].epoch
    assert cluster.heartbeat(1, current_metadata_offset=epoch - 1) == []
    assert cluster.heartbeat(1, want_fence=True) == []
    assert cluster.heartbeat(1) == [f"BrokerRegistrationChange broker_id=1 broker_epoch={epoch} fenced=-1"]
    assert cluster.image.is_active(1)
    assert cluster.heartbeat(1) == []


def test_registrations_that_cannot_be_are_refused() -> None:
    cluster = Cluster(brokers=2)
    for fields, error in (
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"incarnation_id": bytes(16)}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(1), directory_of(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.UNSUPPORTED_VERSION),
    ):
        request = cluster.registration(1, **fields)
        decision = register_broker(
            cluster.image,
            request,
            cluster.defaults,
            cluster_id=CLUSTER_ID,
            next_offset=9,
            old_incarnation=Contact.CONNECTED,
        )
        assert (list(decision.records), response_of(decision).error_code) == ([], error)


@pytest.mark.parametrize(
    ("contact", "directory", "error"),
    [
        (Contact.NONE, directory_of(1), ErrorCode.NONE),
        (Contact.NONE, directory_of(3), ErrorCode.NONE),
        (Contact.OUT_OF_TOUCH, directory_of(1), ErrorCode.NONE),
        (Contact.OUT_OF_TOUCH, directory_of(3), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (Contact.CONNECTED, directory_of(1), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (Contact.CONNECTED, directory_of(3), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ],
)
def test_an_incarnation_replaces_a_dead_one_or_one_whose_directory_it_holds(
    contact: Contact, directory: bytes, error: ErrorCode
) -> None:
    cluster = Cluster(brokers=2)
    request = cluster.registration(1, number=1, log_dirs=[directory])
    decision = register_broker(
        cluster.image, request, cluster.defaults, cluster_id=CLUSTER_ID, next_offset=9, old_incarnation=contact
    )
    assert response_of(decision).error_code == error


def test_registering_over_an_incarnation_that_is_not_fenced_fences_it_in_the_same_decision() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("t", assignments={0: [1, 2]}))
    old = cluster.image.brokers[1]
    records = cluster.register(1, number=1, previous_broker_epoch=old.epoch)
    assert records[0] == "PartitionChange t-0 isr=[2] leader=2"
    new = cluster.image.brokers[1]
    assert new.fenced
    assert new.epoch > old.epoch


def test_a_partition_that_is_nowhere_else_keeps_its_leader_over_a_clean_stop_without_a_shutdown() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    epoch = cluster.image.brokers[1].epoch
    records = cluster.start(1, number=1, previous_broker_epoch=epoch)
    assert [record for record in records if record.startswith("PartitionChange")] == []
    assert partition(cluster).leader == 1


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    cluster = Cluster()
    before = cluster.image.brokers[1]
    cluster.register(1, rack="r")
    again = cluster.image.brokers[1]
    assert (again.epoch, again.fenced, again.rack) == (before.epoch, False, "r")


def test_a_single_node_that_stops_in_order_leads_again_after_it_starts() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    epoch = cluster.image.brokers[1].epoch
    assert cluster.stop(1) == [
        f"BrokerRegistrationChange broker_id=1 broker_epoch={epoch} in_controlled_shutdown=1",
        "PartitionChange t-0 isr=[] leader=-1 eligible_leader_replicas=[1] last_known_elr=[1]",
        f"BrokerRegistrationChange broker_id=1 broker_epoch={epoch} fenced=1",
    ]
    records = cluster.start(1, number=1, previous_broker_epoch=epoch)
    assert records[-1] == "PartitionChange t-0 isr=[1] leader=1 eligible_leader_replicas=[] last_known_elr=[]"
    assert partition(cluster).leader_epoch == 2


def test_a_single_node_that_was_killed_leads_again_as_the_last_known_leader() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    records = cluster.register(1, number=1)
    assert records[0] == "PartitionChange t-0 isr=[] leader=-1 last_known_elr=[1]"
    records = cluster.heartbeat(1)
    assert records[1:] == ["PartitionChange t-0 isr=[1] leader=1 leader_recovery_state=1 last_known_elr=[]"]


def test_a_fenced_broker_hands_over_and_waits_to_be_eligible() -> None:
    cluster = Cluster(brokers=2, defaults=ControllerDefaults(min_insync_replicas=2))
    cluster.create(topic("t", assignments={0: [1, 2]}))
    epoch = cluster.image.brokers[1].epoch
    assert cluster.commit(fence_broker(cluster.image, cluster.defaults, 1)) == [
        "PartitionChange t-0 isr=[2] leader=2 eligible_leader_replicas=[1]",
        f"BrokerRegistrationChange broker_id=1 broker_epoch={epoch} fenced=1",
    ]
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 2))
    assert (partition(cluster).leader, partition(cluster).isr, partition(cluster).elr) == (-1, (), (1, 2))
    # Either of the two has everything that was committed.
    assert cluster.heartbeat(1)[1:] == [
        "PartitionChange t-0 isr=[1] leader=1 eligible_leader_replicas=[2] last_known_elr=[]"
    ]


def test_without_eligible_replicas_the_last_in_sync_stays_in_the_isr() -> None:
    cluster = Cluster(elr=False)
    cluster.create(topic("t", 1))
    assert cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))[0] == "PartitionChange t-0 leader=-1"
    assert cluster.heartbeat(1)[1:] == ["PartitionChange t-0 leader=1"]


def test_unclean_elections_happen_only_if_allowed() -> None:
    for allowed, leader in (("false", -1), ("true", 2)):
        cluster = Cluster(brokers=2, elr=False)
        cluster.create(topic("t", assignments={0: [1, 2]}, unclean_leader_election_enable=allowed))
        cluster.commit(fence_broker(cluster.image, cluster.defaults, 2))
        cluster.heartbeat(2)
        assert partition(cluster).isr == (1,)
        cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
        assert partition(cluster).leader == leader


def test_a_failed_directory_takes_its_partitions_only() -> None:
    cluster = Cluster(brokers=0)
    good, bad = directory_of(1), directory_of(9)
    cluster.start(1, log_dirs=[good, bad])
    cluster.create(topic("t", 1))
    (record,) = cluster.heartbeat(1, offline_log_dirs=[bad])
    assert record.startswith("BrokerRegistrationChange")
    assert cluster.image.brokers[1].log_dirs == (good,)
    assert partition(cluster).leader == 1
    assert cluster.heartbeat(1, offline_log_dirs=[bad]) == []


def test_messages_of_an_earlier_incarnation_are_refused() -> None:
    cluster = Cluster()
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=0)
    stale = broker_heartbeat(cluster.image, request, cluster.defaults)
    assert response_of(stale).error_code == ErrorCode.STALE_BROKER_EPOCH
    ids = allocate_producer_ids(cluster.image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=0))
    assert (list(ids.records), response_of(ids).error_code) == ([], ErrorCode.STALE_BROKER_EPOCH)


def test_a_broker_is_unregistered() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("t", assignments={0: [2, 1]}))
    epoch = cluster.image.brokers[2].epoch
    records, _ = cluster.apply(unregister_broker(cluster.image, UnregisterBrokerRequest(broker_id=2), cluster.defaults))
    assert records == ["PartitionChange t-0 isr=[1] leader=1", f"UnregisterBroker broker_id=2 broker_epoch={epoch}"]
    again = unregister_broker(cluster.image, UnregisterBrokerRequest(broker_id=2), cluster.defaults)
    assert response_of(again).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


# ElectLeaders


def test_leaders_are_elected_as_preferred_and_only_where_that_changes_something() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("t", assignments={0: [1, 2], 1: [2, 1]}))
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    cluster.heartbeat(1)
    topics = [TopicPartitions(topic="t", partitions=[0, 1, 2]), TopicPartitions(topic="u", partitions=[0])]
    decision = elect_leaders(
        cluster.image, ElectLeadersRequest(election_type=0, topic_partitions=topics), cluster.defaults
    )
    errors = [
        ErrorCode(result.error_code).name
        for topic_result in response_of(decision).replica_election_results
        for result in topic_result.partition_result
    ]
    # Broker 1 is back but not in sync yet.
    assert errors == [
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    everything = elect_leaders(
        cluster.image, ElectLeadersRequest(election_type=0, topic_partitions=None), cluster.defaults
    )
    (result,) = response_of(everything).replica_election_results[0].partition_result
    assert result.partition_id == 0


def test_an_unclean_election_is_requested_if_there_is_no_leader() -> None:
    cluster = Cluster(brokers=2, elr=False)
    cluster.create(topic("t", assignments={0: [1, 2]}))
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 2))
    cluster.heartbeat(2)
    cluster.commit(fence_broker(cluster.image, cluster.defaults, 1))
    request = ElectLeadersRequest(election_type=1, topic_partitions=None)
    records, _ = cluster.apply(elect_leaders(cluster.image, request, cluster.defaults))
    assert records == ["PartitionChange t-0 isr=[2] leader=2 leader_recovery_state=1"]
    bad = elect_leaders(cluster.image, ElectLeadersRequest(election_type=7), cluster.defaults)
    assert response_of(bad).error_code == ErrorCode.INVALID_REQUEST


def test_producer_ids_come_in_blocks_of_a_thousand() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    starts = [cluster.apply(allocate_producer_ids(cluster.image, request))[1].producer_id_start for _ in range(3)]
    assert starts == [0, 1000, 2000]
    assert cluster.image.next_producer_id == 3000
