"""Contents of a topic for read_committed consumers; the brokers' state of the sink's transactions."""

from cordwood import Admin, Consumer, ConsumerRecord, NewTopic, TopicPartition
from cordwood.spark.sink.names import TRANSACTIONAL_ID_PREFIX


def create(bootstrap: str, *topics: str, partitions: int = 3) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions) for topic in topics])


def committed(bootstrap: str, topic: str, partitions: int = 3) -> list[ConsumerRecord]:
    """All there is now. A transaction that stays open would hide what follows, so that is asked for, too."""
    with Consumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        assigned = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        ends = consumer.end_offsets(assigned)
        records: list[ConsumerRecord] = []
        while any(consumer.position(partition) < ends[partition] for partition in assigned):
            for found in consumer.getmany(timeout_ms=200).values():
                records += found
        return records


def values(bootstrap: str, topic: str, partitions: int = 3) -> list[str]:
    """Sorted."""
    return sorted(record.value.decode() for record in committed(bootstrap, topic, partitions))


def names(bootstrap: str, *states: str) -> set[str]:
    """Transactional ids of the sink."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        listed = admin.list_transactions(states=states)
    return {
        listing.transactional_id for listing in listed if listing.transactional_id.startswith(TRANSACTIONAL_ID_PREFIX)
    }
