"""Decoding of fetched batches."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from cordwood.client.consumer.fetches.records import FetchedRecords
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadAnswer, SerializationFailed
from cordwood.wire.compression import Codec
from cordwood.wire.legacy import encode_message
from cordwood.wire.records import encode_batch
from tests.client.fetched_data import CODECS, P0, batch, marker, partition_data

COMMITTED = ConsumerSettings(isolation_level="read_committed")


def fetched(
    *parts: bytes, start: int = 0, settings: ConsumerSettings | None = None, aborted: Sequence[tuple[int, int]] = ()
) -> FetchedRecords:
    data = partition_data(b"".join(parts), aborted=aborted)
    return FetchedRecords(P0, data, start, settings or ConsumerSettings())


def offsets(records: Sequence[Any]) -> list[int]:
    return [record.offset for record in records]


def test_records_are_cut_anywhere_and_none_comes_twice() -> None:
    found = fetched(batch(0, 1, 2), batch(3, 4))
    taken = []
    while not found.is_drained:
        taken.append(offsets(found.take(2)))
    assert [each for each in taken if each] == [[0, 1], [2, 3], [4]]


def test_the_position_follows_taken_records() -> None:
    found = fetched(batch(0, 1, 2))
    found.take(2)
    assert (found.offset, found.epoch, found.is_drained) == (2, 0, False)
    found.take(2)
    assert (found.offset, found.is_drained) == (3, True)


def test_a_batch_is_returned_whole_and_records_before_the_position_are_skipped() -> None:
    assert offsets(fetched(batch(0, 1, 2, 3), start=2).take(10)) == [2, 3]


def test_the_position_passes_records_removed_by_compaction() -> None:
    found = fetched(batch(0, 3, last=9))
    assert offsets(found.take(10)) == [0, 3]
    assert found.offset == found.next_offset == 10


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    found = fetched(batch(0, 1), batch(2, 3)[:-5])
    assert found.next_offset == 2
    assert offsets(found.take(10)) == [0, 1]
    assert found.is_drained


def test_the_epoch_is_that_of_the_last_record_taken() -> None:
    found = fetched(batch(0, epoch=3), batch(1, epoch=5))
    found.take(1)
    assert found.epoch == 3
    found.take(1)
    assert found.epoch == 5


def test_control_batches_are_skipped() -> None:
    found = fetched(batch(0, producer=7), marker(1, 7, commit=True), batch(2))
    assert offsets(found.take(10)) == [0, 2]


def test_aborted_transactions_are_not_returned() -> None:
    parts = [batch(0, producer=7), batch(1, producer=8), marker(2, 7, commit=False), batch(3, producer=7)]
    found = fetched(*parts, settings=COMMITTED, aborted=[(7, 0)])
    assert offsets(found.take(10)) == [1, 3]
    assert offsets(fetched(*parts, aborted=[(7, 0)]).take(10)) == [0, 1, 3]


def test_a_fetch_of_nothing_but_aborted_records_moves_on() -> None:
    found = fetched(batch(0, 1, producer=7), marker(2, 7, commit=False), settings=COMMITTED, aborted=[(7, 0)])
    assert found.take(10) == []
    assert found.is_drained
    assert found.offset == 3


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(codec: Codec) -> None:
    assert offsets(fetched(batch(0, 1, 2, codec=codec)).take(10)) == [0, 1, 2]


def test_log_append_time_is_reported() -> None:
    [record] = fetched(batch(0, log_append_time=77)).take(10)
    assert (record.timestamp, record.timestamp_type) == (77, 1)
    [record] = fetched(batch(0)).take(10)
    assert (record.timestamp, record.timestamp_type) == (1000, 0)


def test_headers_are_printed() -> None:
    [record] = fetched(bytes(encode_batch([(0, 5, b"k", b"v", [("h", b"1"), ("h", None)])]))).take(1)
    assert record.headers == (("h", b"1"), ("h", None))


@pytest.mark.parametrize(("magic", "timestamp_type"), [(0, -1), (1, 0)])
def test_old_formats_are_read(magic: int, timestamp_type: int) -> None:
    found = fetched(encode_message(magic, 0, 5, b"k", b"v"), encode_message(magic, 1, 6, None, b"w"))
    records = found.take(10)
    assert [(each.offset, each.key, each.value) for each in records] == [(0, b"k", b"v"), (1, None, b"w")]
    assert records[0].timestamp_type == timestamp_type
    assert records[0].leader_epoch == -1


def damaged(contents: bytes) -> bytes:
    return contents[:-1] + bytes([contents[-1] ^ 0xFF])


def test_a_damaged_batch_is_raised_repeatedly_after_the_records_before_it() -> None:
    found = fetched(batch(0, 1), damaged(batch(2)))
    assert offsets(found.take(10)) == [0, 1]
    for _ in range(2):
        with pytest.raises(BadAnswer, match="t-0 at offset 2"):
            found.take(10)
    assert not found.is_drained


def test_without_check_crcs_the_checksum_is_not_examined() -> None:
    settings = ConsumerSettings(check_crcs=False)
    broken = bytearray(batch(0))
    broken[17] ^= 0xFF
    assert offsets(fetched(bytes(broken), settings=settings).take(10)) == [0]


def test_a_response_without_a_whole_batch_is_reported() -> None:
    with pytest.raises(BadAnswer, match="no complete batch"):
        fetched(batch(0)[:-1]).take(1)


def test_deserializers_are_not_called_for_null() -> None:
    settings = ConsumerSettings(key_deserializer=bytes.decode, value_deserializer=json.loads)
    found = fetched(bytes(encode_batch([(0, 5, b"k", b'{"a": 1}', ()), (1, 5, None, None, ())])), settings=settings)
    assert [(each.key, each.value) for each in found.take(10)] == [("k", {"a": 1}), (None, None)]


def test_a_deserialization_failure_comes_after_earlier_records_and_keeps_the_position() -> None:
    def refuse_three(contents: bytes) -> bytes:
        if contents == b"3":
            raise ValueError("three")
        return contents

    found = fetched(batch(1, 2, 3, 4), start=1, settings=ConsumerSettings(value_deserializer=refuse_three))
    assert offsets(found.take(10)) == [1, 2]
    assert found.offset == 3
    for _ in range(2):
        with pytest.raises(SerializationFailed, match=r"offset 3 .*three"):
            found.take(10)
        assert (found.offset, found.is_drained) == (3, False)


def test_a_recovered_deserializer_gets_the_refused_record_again() -> None:
    refusals = [True]

    def refuse_once(contents: bytes) -> bytes:
        if contents == b"1" and refusals:
            refusals.pop()
            raise ValueError
        return contents

    found = fetched(batch(0, 1, 2), settings=ConsumerSettings(value_deserializer=refuse_once))
    assert offsets(found.take(10)) == [0]
    assert offsets(found.take(10)) == [1, 2]
    assert (found.offset, found.is_drained) == (3, True)


def test_arrow_returns_the_rest_without_aborted_records() -> None:
    pytest.importorskip("pyarrow")
    parts = [batch(0, 1, producer=8), batch(2, producer=7), marker(3, 7, commit=False), batch(4, 5)]
    found = fetched(*parts, settings=COMMITTED, aborted=[(7, 2)])
    found.take(1)
    columns = found.arrow(headers=False)
    assert columns.column("offset").to_pylist() == [1, 4, 5]
    assert (found.offset, found.epoch, found.is_drained) == (6, 0, True)


def test_arrow_returns_decoded_but_unused_records_again() -> None:
    pytest.importorskip("pyarrow")
    parts = [batch(0, producer=7), marker(1, 7, commit=False), batch(2, 3)]
    found = fetched(*parts, settings=COMMITTED, aborted=[(7, 0)])
    assert offsets(found.take(10)) == [2, 3]
    found.rewind(0)
    assert found.arrow(headers=False).column("offset").to_pylist() == [2, 3]


def test_arrow_raises_a_damaged_batch_repeatedly_after_the_records_before_it() -> None:
    pytest.importorskip("pyarrow")
    found = fetched(batch(0, 1), batch(2), damaged(batch(3, 4)), batch(5), start=1)
    assert found.arrow(headers=False).column("offset").to_pylist() == [1]
    assert found.arrow(headers=False).column("offset").to_pylist() == [2]
    assert (found.offset, found.is_drained) == (3, False)
    for _ in range(2):
        with pytest.raises(BadAnswer, match="at offset 3"):
            found.arrow(headers=False)
        assert found.offset == 3


def test_arrow_skips_aborted_records_before_a_damaged_batch() -> None:
    pytest.importorskip("pyarrow")
    settings = ConsumerSettings(isolation_level="read_committed")
    parts = [batch(0, producer=7), marker(1, 7, commit=False), batch(2), damaged(batch(3))]
    found = fetched(*parts, settings=settings, aborted=[(7, 0)])
    assert found.arrow(headers=False).column("offset").to_pylist() == [2]
    with pytest.raises(BadAnswer, match="at offset 3"):
        found.arrow(headers=False)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_records_before_a_damaged_batch_can_be_taken_after_arrow(isolation_level: str) -> None:
    pytest.importorskip("pyarrow")
    settings = ConsumerSettings(isolation_level=isolation_level)
    found = fetched(batch(0, 1), batch(2, 3), damaged(batch(4)), settings=settings)
    assert found.arrow(headers=False).column("offset").to_pylist() == [0, 1]
    assert offsets(found.take(10)) == [2, 3]
    with pytest.raises(BadAnswer, match="at offset 4"):
        found.take(10)
