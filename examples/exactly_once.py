"""Orders in, bills out, exactly once: a worker that stops in the middle of a transaction, and one that takes its place.

A worker's output and its input offsets are one transaction: both count, or neither does. Nothing here is special
to Cordwood but the lines that start and stop the node: confluent-kafka does the same with any Kafka.
"""

import sys
from collections import Counter
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

import cordwood.testing

ORDERS, PARTITIONS, AT_A_TIME = 5_000, 3, 250
PATIENCE_S = 60.0


def main() -> None:
    # A directory, if one is named: what is there afterwards can be served with `cordwood up --data`.
    with cordwood.testing.node(data=sys.argv[1] if len(sys.argv) > 1 else None) as node:
        orders, bills = node.topic("orders", partitions=PARTITIONS), node.topic("bills", partitions=PARTITIONS)
        place_orders(node.bootstrap, orders)

        billed = bill(node.bootstrap, orders, bills, stop_within_transaction=5)
        print(f"the first worker has committed {billed:,} bills, and stops in the middle of a transaction")
        billed = bill(node.bootstrap, orders, bills)
        print(f"the second takes its place, and commits {billed:,}")

        written = Counter(read(node.bootstrap, bills, "read_uncommitted"))
        committed = Counter(read(node.bootstrap, bills, "read_committed"))
        print(f"written: {written.total():,} bills for {len(written):,} orders")
        print(f"committed: {committed.total():,} bills for {len(committed):,} orders")


def place_orders(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(ORDERS):
        producer.produce(topic, f"order {number}", f"customer {number % 100}")
    producer.flush(PATIENCE_S)


def bill(bootstrap: str, orders: str, bills: str, *, stop_within_transaction: int | None = None) -> int:
    """Consume, transform, produce, until there are no more orders. Returns how many bills are committed."""
    # A producer that starts with this id fences the previous one, and aborts its open transaction.
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "billing"})
    producer.init_transactions(PATIENCE_S)
    consumer = new_consumer(bootstrap, "billing", orders, "read_committed")
    billed = 0
    for number, received in enumerate(to_the_end(consumer), start=1):
        producer.begin_transaction()
        for order in received:
            producer.produce(bills, f"bill for {text(order)}", order.key())
        if number == stop_within_transaction:
            producer.flush(PATIENCE_S)
            break
        # The offsets are the consumer's to know, and part of the transaction: the group does not commit automatically.
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
        )
        producer.commit_transaction(PATIENCE_S)
        billed += len(received)
    consumer.close()
    return billed


def read(bootstrap: str, topic: str, isolation: str) -> list[str]:
    consumer = new_consumer(bootstrap, isolation, topic, isolation)
    values = [text(message) for received in to_the_end(consumer) for message in received]
    consumer.close()
    return values


def new_consumer(bootstrap: str, group: str, topic: str, isolation: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    return consumer


def to_the_end(consumer: Consumer) -> Iterator[list[Message]]:
    """Yields records in portions until every partition is at its end. A real worker would continue."""
    ended = 0
    while ended < PARTITIONS:
        received = []
        for message in consumer.consume(AT_A_TIME, timeout=0.2):
            error = message.error()
            if error is None:
                received.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise KafkaException(error)
        if received:
            yield received


def text(message: Message) -> str:
    return (message.value() or b"").decode()


if __name__ == "__main__":
    main()
