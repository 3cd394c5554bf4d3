"""Records of `__transaction_state`: Kafka's own are decoded, and encoded again identically."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.coordinator.transactions.records import record, tombstone, transaction_of
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.frames import (
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from cordwood.wire.messages.transaction_records.transaction_log import TransactionLogKey, TransactionLogValue
from cordwood.wire.records import decode_batch
from tests.coordinator.transactions.txn_desk import Desk

DATA_DIRECTORY = Path(__file__).parents[2] / "vectors" / "kafka-data-dir.tar.gz"


def kafkas_records() -> Iterator[tuple[bytes, bytes | None]]:
    with tarfile.open(DATA_DIRECTORY) as archive:
        for member in archive:
            if "/__transaction_state-" in member.name and member.name.endswith(".log"):
                file = archive.extractfile(member)
                assert file is not None
                data = file.read()
                for position, _ in batch_headers(data):
                    for found in decode_batch(data, position):
                        assert found.key is not None
                        yield found.key, found.value


def sorted_partitions(value: TransactionLogValue) -> TransactionLogValue:
    """Kafka has them in the order of a hash map."""
    for topic in value.transaction_partitions or ():
        topic.partition_ids.sort()
    if value.transaction_partitions:
        value.transaction_partitions.sort(key=lambda topic: topic.topic)
    return value


def test_records_written_by_kafka_encode_to_the_same_bytes() -> None:
    versions = set()
    for key_bytes, value_bytes in kafkas_records():
        key = decode_coordinator_key("transaction", key_bytes)
        assert isinstance(key, TransactionLogKey)
        if value_bytes is None:
            assert encode_coordinator_key(tombstone(key.transactional_id).key) == key_bytes
            continue
        value, version = decode_coordinator_value("transaction", 0, value_bytes)
        assert isinstance(value, TransactionLogValue)
        versions.add(version)
        written = record(transaction_of(key.transactional_id, value), level=version)
        assert written.value is not None
        assert written.version == version
        assert encode_coordinator_key(written.key) == key_bytes
        expected = encode_coordinator_value(sorted_partitions(value), version)
        assert encode_coordinator_value(written.value, version) == expected
        assert len(expected) == len(value_bytes)
    assert versions


def test_prepared_transactions_in_a_shard_written_by_kafka_are_completed() -> None:
    desk = Desk()
    for key_bytes, value_bytes in kafkas_records():
        key = decode_coordinator_key("transaction", key_bytes)
        decoded = None if value_bytes is None else decode_coordinator_value("transaction", 0, value_bytes)
        desk.state.replay([CoordinatorRecord(key, *(decoded or (None,)))], 0, -1)
    desk.state.loaded()
    assert desk.state.transactions
    assert all(transaction.producer_id >= 0 for transaction in desk.state.transactions.values())


@pytest.mark.parametrize("level", [1, 2])
def test_decisions_are_visible_to_other_brokers(level: int) -> None:
    desk = Desk(level)
    producer = desk.begin().producer_id
    desk.add(producer, 0, ("orders", 1), ("orders", 0), ("other", 2), client_version=level)
    before = desk.transaction
    desk.load_anew()
    assert desk.transaction == before


def test_a_cluster_of_level_0_writes_records_that_older_brokers_can_read() -> None:
    desk = Desk(level=0)
    desk.begin()
    assert record(desk.transaction, 0).version == 0
