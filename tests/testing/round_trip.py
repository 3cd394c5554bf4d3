"""Records through a node, by librdkafka: what people's tests would do."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

PATIENCE_S = 60.0


def produce(bootstrap: str, topic: str, *values: bytes, **settings: object) -> None:
    """Returns when all are acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first values of partition 0."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(count, PATIENCE_S)
    finally:
        consumer.close()
    return [message.value() or b"" for message in messages]
