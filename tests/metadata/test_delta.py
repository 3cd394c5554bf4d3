"""Images and deltas produced by records."""

import pytest

from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import BROKER_DEFAULT, Acl, MetadataImage, OffsetAndEpoch, ScramUser, topic_resource
from cordwood.metadata.image_records import image_records
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.wire.messages import index, metadata_record_class
from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.fence_broker_record import FenceBrokerRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from cordwood.wire.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from cordwood.wire.messages.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.messages.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from cordwood.wire.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from cordwood.wire.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from cordwood.wire.schema import MetadataRecord
from tests.metadata.cluster import Cluster, topic

ID = bytes(range(16))


def after(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(image).replay_all(list(records))
    return delta.apply(OffsetAndEpoch(image.covers.offset + len(records), 1), 1)


def config(value: str | None, name: str = "a") -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


def test_every_record_of_kafka_can_be_replayed() -> None:
    from cordwood.metadata.delta import _REPLAY

    known = {metadata_record_class(key) for log, key in index.METADATA_RECORDS if log == "metadata"}
    assert known == set(_REPLAY)


def test_a_change_leaves_the_image_before_it_as_it_was() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 2))
    before = cluster.image
    topic_id = before.topics.ids["t"]
    changed = after(before, PartitionChangeRecord(topic_id=topic_id, partition_id=1, isr=[], leader=-1))
    old, new = before.topics.partition("t", 1), changed.topics.partition("t", 1)
    assert old is not None
    assert new is not None
    assert (old.leader, old.leader_epoch, old.partition_epoch) == (1, 0, 0)
    assert (new.leader, new.leader_epoch, new.partition_epoch, new.isr) == (-1, 1, 1, ())
    assert changed.topics.partition("t", 0) is before.topics.partition("t", 0)
    assert changed.configs is before.configs


def test_a_delta_lists_a_brokers_changes() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(topic("t", assignments={0: [1, 2], 1: [2, 1]}), topic("gone", assignments={0: [1]}))
    assert sorted(cluster.delta.topics.created.values()) == ["gone", "t"]
    changes = cluster.delta.topics.replica_changes(1)
    assert sorted(changes.leading) == [("gone", 0), ("t", 0)]
    assert sorted(changes.following) == [("t", 1)]

    topic_id, gone_id = cluster.image.topics.ids["t"], cluster.image.topics.ids["gone"]
    cluster.commit(
        [
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2),
            PartitionChangeRecord(topic_id=topic_id, partition_id=1, replicas=[2], isr=[2]),
            RemoveTopicRecord(topic_id=gone_id),
        ]
    )
    changes = cluster.delta.topics.replica_changes(1)
    assert changes.deleted == {("gone", 0): gone_id, ("t", 1): topic_id}
    assert changes.leading == {}
    change = changes.following["t", 0]
    assert change.before is not None
    assert (change.before.leader, change.after.leader) == (1, 2)


def test_deleting_a_topic_deletes_its_configuration() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1, retention_ms="5"))
    assert cluster.image.config(topic_resource("t")) == {"retention.ms": "5"}
    cluster.commit([RemoveTopicRecord(topic_id=cluster.image.topics.ids["t"])])
    assert topic_resource("t") not in cluster.image.configs
    assert cluster.delta.configs == {topic_resource("t"): {"retention.ms": None}}
    assert "t" not in cluster.image.topics


def test_a_topic_may_be_deleted_and_made_again_in_one_batch() -> None:
    cluster = Cluster()
    cluster.create(topic("a.b", 1))
    old_id = cluster.image.topics.ids["a.b"]
    cluster.commit([RemoveTopicRecord(topic_id=old_id), TopicRecord(name="a.b", topic_id=ID)])
    assert cluster.image.topics.ids["a.b"] == ID
    assert list(cluster.delta.topics.deleted) == [old_id]
    assert dict(cluster.image.topics.colliding) == {"a_b": ("a.b",)}


def test_eligible_leader_replicas_are_cleared_of_one_topic_or_of_all() -> None:
    cluster = Cluster()
    cluster.create(topic("a", 1), topic("b", 1))
    cluster.stop(1)
    one = after(cluster.image, ClearElrRecord(topic_name="a"))
    assert [partition.elr for name in "ab" if (partition := one.topics.partition(name, 0))] == [(), (1,)]
    all_of_them = after(cluster.image, ClearElrRecord())
    partitions = [partition for name in "ab" if (partition := all_of_them.topics.partition(name, 0))]
    assert [(partition.elr, partition.last_known_elr) for partition in partitions] == [((), ()), ((), ())]
    assert {partition.partition_epoch for partition in partitions} == {2}


def test_security_records_are_added_and_removed() -> None:
    image = after(
        MetadataImage(),
        AccessControlEntryRecord(id=ID, resource_type=2, resource_name="t", principal="User:a", host="*"),
        UserScramCredentialRecord(name="a", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
        DelegationTokenRecord(owner="User:a", renewers=["User:b"], token_id="x", max_timestamp=9),
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key="k", value=1.5),
    )
    assert image.acls == {ID: Acl(2, "t", 0, "User:a", "*", 0, 0)}
    assert image.scram[ScramUser("a", 2)].salt == b"s"
    assert image.delegation_tokens["x"].renewers == ("User:b",)
    assert image.client_quotas == {(("user", None),): {"k": 1.5}}
    assert after(MetadataImage(), *image_records(image)).same_state(image)
    empty = after(
        image,
        RemoveAccessControlEntryRecord(id=ID),
        RemoveUserScramCredentialRecord(name="a", mechanism=2),
        RemoveDelegationTokenRecord(token_id="x"),
        ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key="k", remove=True),
    )
    assert empty.same_state(MetadataImage())


def test_records_of_older_versions_fence_and_unfence() -> None:
    cluster = Cluster()
    epoch = cluster.image.brokers[1].epoch
    fenced = after(cluster.image, FenceBrokerRecord(id=1, epoch=epoch))
    assert fenced.brokers[1].fenced
    assert not after(fenced, UnfenceBrokerRecord(id=1, epoch=epoch)).brokers[1].fenced
    assert after(fenced, UnregisterBrokerRecord(broker_id=1, broker_epoch=epoch)).brokers == {}


def test_records_that_contradict_the_image_are_refused() -> None:
    cluster = Cluster()
    cluster.create(topic("t", 1))
    topic_id = cluster.image.topics.ids["t"]
    for record in (
        TopicRecord(name="t", topic_id=ID),
        PartitionChangeRecord(topic_id=topic_id, partition_id=1),
        PartitionChangeRecord(topic_id=ID, partition_id=0),
        RemoveTopicRecord(topic_id=ID),
        ClearElrRecord(topic_name="u"),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=0),
        UnfenceBrokerRecord(id=2, epoch=0),
    ):
        with pytest.raises(InvalidMetadata):
            MetadataDelta(cluster.image).replay(record)
    with pytest.raises(InvalidMetadata):
        after(MetadataImage(), ProducerIdsRecord(next_producer_id=5), ProducerIdsRecord(next_producer_id=4))


# Transactions


def batch(offset: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(offset, offset + len(records), 1, 1, 0, records)


def test_a_transaction_counts_when_it_ends_also_batches_later() -> None:
    loader = Loader()
    loader.load(batch(0, config("1"), BeginTransactionRecord(), config("2")))
    was_held = loader.in_transaction
    assert loader.image.config(BROKER_DEFAULT) == {"a": "1"}
    # The transaction comes after a snapshot at that place, from its beginning.
    assert loader.image.covers.offset == 1
    loader.load(batch(3, config("3", "b")))
    delta = loader.load(batch(4, EndTransactionRecord(), config("4", "c")))
    assert (was_held, loader.in_transaction) == (True, False)
    assert loader.image.config(BROKER_DEFAULT) == {"a": "2", "b": "3", "c": "4"}
    assert delta.configs == {BROKER_DEFAULT: {"a": "2", "b": "3", "c": "4"}}
    assert loader.image.covers.offset == 6


def test_an_aborted_transaction_leaves_nothing() -> None:
    loader = Loader()
    loader.load(batch(0, BeginTransactionRecord(), config("2")))
    loader.load(batch(2, AbortTransactionRecord(), config("1", "b")))
    assert loader.image.config(BROKER_DEFAULT) == {"b": "1"}


def test_transactions_do_not_nest_and_do_not_end_unbegun() -> None:
    loader = Loader()
    with pytest.raises(InvalidMetadata):
        loader.load(batch(0, EndTransactionRecord()))
    with pytest.raises(InvalidMetadata):
        loader.load(batch(0, BeginTransactionRecord(), BeginTransactionRecord()))
