"""The clients with brokers of 2.8 and 3.3: each request in a version that these know."""

from collections.abc import Iterator, Mapping

import pytest

from cordwood import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition, UnsupportedByBroker
from tests.client.older_broker import KAFKA_2_8, KAFKA_3_3, OlderBroker, older_broker

P0 = TopicPartition("orders", 0)


@pytest.fixture(params=[KAFKA_2_8, KAFKA_3_3], ids=["2.8", "3.3"])
def broker(request: pytest.FixtureRequest) -> Iterator[OlderBroker]:
    versions: Mapping[int, int] = request.param
    with older_broker(versions) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", partitions=1)])
            admin.until_topics_led(["orders"])
        yield broker
        assert broker.too_new == []


def test_produced_records_are_consumed_in_a_group(broker: OlderBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(100):
            producer.send("orders", str(number))
    for expected in (range(60), range(60, 100)):
        with Consumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            records = iter(consumer)
            assert [int(next(records).value) for _ in expected] == list(expected)
            consumer.commit()


def test_partitions_are_read_from_where_one_likes(broker: OlderBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(10):
            producer.send("orders", str(number), timestamp_ms=1000 + number)
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([P0])
        found = consumer.offsets_for_times({P0: 1004})[P0]
        assert found is not None
        consumer.seek(P0, found.offset)
        assert consumer.getone().value == b"4"
        assert (consumer.beginning_offsets([P0]), consumer.end_offsets([P0])) == ({P0: 0}, {P0: 10})


def test_transactions_are_committed_and_aborted(broker: OlderBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", "aborted")
        producer.flush()
        producer.abort_transaction()
        for number in range(3):
            with producer.transaction():
                producer.send("orders", str(number))
    with Consumer(
        "orders",
        bootstrap_servers=broker.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        assert [consumer.getone().value for _ in range(3)] == [b"0", b"1", b"2"]


def test_offsets_are_committed_within_a_transaction(broker: OlderBroker) -> None:
    with (
        Producer(bootstrap_servers=broker.bootstrap, transactional_id="t") as producer,
        Consumer("orders", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer,
    ):
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", "one")
        assert consumer.getone().offset == 0
        with producer.transaction():
            producer.send_offsets_to_transaction({P0: OffsetAndMetadata(1)}, consumer.group_metadata())
        assert consumer.committed(P0)[P0] == OffsetAndMetadata(1)


def test_the_cluster_is_described(broker: OlderBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert "orders" in admin.list_topics()
        assert [len(topic.partitions) for topic in admin.describe_topics(["orders"]).values()] == [1]
        assert admin.describe_cluster().brokers


def test_a_group_of_the_new_protocol_is_refused_with_the_reason(broker: OlderBroker) -> None:
    with (
        Consumer("orders", bootstrap_servers=broker.bootstrap, group_id="g", group_protocol="consumer") as consumer,
        pytest.raises(UnsupportedByBroker, match="ConsumerGroupHeartbeat"),
    ):
        consumer.getone()


def test_topic_ids_are_not_sent_to_a_broker_that_lacks_them() -> None:
    """Kafka 2.8 has the field in Metadata 10 and 11, and refuses it."""
    with older_broker(KAFKA_2_8) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        created = admin.create_topics([NewTopic("orders", partitions=1)])["orders"]
        with pytest.raises(UnsupportedByBroker, match="Metadata in versions 0-11, and 12"):
            admin.describe_topics_by_id([created.id])
