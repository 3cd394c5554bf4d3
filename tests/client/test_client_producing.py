"""Partitions, batches, sequences and back-off: what a producer decides, without I/O."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.backoff import Backoff
from cordwood.client.partitioning import StickyPartitioner
from cordwood.client.produce_queue import OutgoingBatch, ProduceQueue, ProducerIdentity
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.compression import Codec
from cordwood.wire.hashing import partition_for_key
from cordwood.wire.records import check_crc, decode_batch, read_header


def values(batch: OutgoingBatch) -> list[bytes | None]:
    return [record.value for record in decode_batch(batch.encoded)]


def queue_of(count: int, *, batch_bytes: int = 1000, size: int = 10, identity: bool = False) -> ProduceQueue:
    queue = ProduceQueue(batch_bytes, identity=ProducerIdentity(7, 1) if identity else None)
    for number in range(count):
        queue.add((number, None, b"%d" % number, ()), size)
    return queue


def test_a_key_decides_the_partition_as_in_kafka() -> None:
    partitioner = StickyPartitioner(12, 1000, SeededRandom(1))
    for key in (b"", b"a", b"order-17"):
        assert partitioner.partition(key, 10) == partition_for_key(key, 12)


def test_records_without_a_key_stay_together_for_a_batch() -> None:
    partitioner = StickyPartitioner(12, 1000, SeededRandom(1))
    chosen = [partitioner.partition(None, 100) for _ in range(30)]
    assert [len(set(chosen[start : start + 10])) for start in (0, 10, 20)] == [1, 1, 1]
    assert chosen[9] != chosen[10]
    assert chosen[19] != chosen[20]


def test_records_without_a_key_reach_every_partition() -> None:
    partitioner = StickyPartitioner(4, 1, SeededRandom(1))
    assert set(Counter(partitioner.partition(None, 1) for _ in range(200))) == {0, 1, 2, 3}


def test_one_partition_takes_all() -> None:
    partitioner = StickyPartitioner(1, 1, SeededRandom(1))
    assert {partitioner.partition(None, 1) for _ in range(10)} == {0}


def test_a_batch_takes_what_fits() -> None:
    queue = queue_of(5, batch_bytes=30)
    assert values(queue.take()) == [b"0", b"1", b"2"]
    queue.delivered()
    assert values(queue.take()) == [b"3", b"4"]
    queue.delivered()
    assert queue.is_empty


def test_a_record_larger_than_a_batch_is_a_batch_by_itself() -> None:
    queue = queue_of(2, batch_bytes=5)
    assert values(queue.take()) == [b"0"]


def test_a_batch_in_flight_is_not_forgotten() -> None:
    queue = queue_of(1)
    queue.take()
    assert not queue.is_empty
    assert queue.delivered().size_bytes == 10
    assert queue.is_empty


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_one_that_a_broker_takes(codec: Codec) -> None:
    queue = ProduceQueue(1000, codec)
    queue.add((123, b"k", None, [("h", b"v"), ("n", None)]), 10)
    batch = queue.take()
    header = read_header(batch.encoded)
    check_crc(batch.encoded, header)
    assert (header.base_offset, header.codec, header.producer_id, header.base_sequence) == (0, codec, -1, -1)
    (record,) = decode_batch(batch.encoded)
    assert (record.timestamp, record.key, record.value) == (123, b"k", None)
    assert record.headers == (("h", b"v"), ("n", None))


def test_sequences_count_records() -> None:
    queue = queue_of(5, batch_bytes=30, identity=True)
    first = read_header(queue.take().encoded)
    queue.delivered()
    second = read_header(queue.take().encoded)
    assert (first.producer_id, first.producer_epoch) == (7, 1)
    assert (first.base_sequence, second.base_sequence) == (0, 3)


@given(count=st.integers(2, 40), refused=st.lists(st.booleans(), max_size=30), batch_bytes=st.integers(10, 500))
def test_batches_that_are_too_large_come_again_in_parts_in_order_with_their_sequences(
    count: int, refused: list[bool], batch_bytes: int
) -> None:
    queue = queue_of(count, batch_bytes=batch_bytes, identity=True)
    sent: list[bytes | None] = []
    sizes = 0
    while not queue.is_empty:
        batch = queue.take()
        assert read_header(batch.encoded).base_sequence == len(sent)
        if refused and refused.pop() and queue.too_large():
            continue
        sent += values(batch)
        sizes += queue.delivered().size_bytes
    assert sent == [b"%d" % number for number in range(count)]
    assert sizes == 10 * count


def test_a_single_record_cannot_be_split() -> None:
    queue = queue_of(1)
    queue.take()
    assert not queue.too_large()


def test_the_pause_doubles_up_to_its_bound() -> None:
    backoff = Backoff(100, 1000, SeededRandom(1))
    for failures, exact in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8)):
        assert exact * 0.8 <= backoff.pause_s(failures) <= exact * 1.2
    for failures in (5, 50, 5_000):
        assert 0.8 <= backoff.pause_s(failures) <= 1.0
