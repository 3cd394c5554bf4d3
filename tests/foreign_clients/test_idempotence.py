"""Idempotent producers whose connections are cut: nothing is lost, nothing is there twice, nothing is out of order."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.foreign_clients.cutting_proxy import CuttingProxy
from tests.foreign_clients.kafka_client import Address, Client, Record, Sending, eventually, read_all
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

RECORDS = 6000
PARTITIONS = 2


# kcat gives up when it has no connection.
@pytest.mark.parametrize("name", ["librdkafka", "kafka-python", "aiokafka", "cordwood"])
def test_records_arrive_once_and_in_order_while_connections_are_cut(
    proxy: CuttingProxy, connect: Callable[[str, Address], Client], topic: str, name: str
) -> None:
    address = Address(proxy.bootstrap)
    proxy.cutting = False
    direct = LibrdkafkaClient(address)
    direct.create_topic(topic, PARTITIONS)
    eventually(lambda: direct.leaders(topic), lambda leaders: len(leaders) == PARTITIONS)

    sent = [b"%05d %s" % (i, b"." * (i % 90)) for i in range(RECORDS)]
    how = Sending(idempotent=True, batch_bytes=4000, linger_ms=0)

    def produce(partition: int) -> list[int]:
        return connect(name, address).produce(topic, [Record(value) for value in sent], partition=partition, how=how)

    proxy.cutting = True
    with ThreadPoolExecutor(PARTITIONS) as pool:
        acknowledged = list(pool.map(produce, range(PARTITIONS)))
    proxy.cutting = False

    for partition in range(PARTITIONS):
        assert [record.value for record in read_all(direct, topic, partition=partition)] == sent
        assert acknowledged[partition] == list(range(RECORDS))
    assert proxy.cuts > 5, "too few connections were cut to show anything"
