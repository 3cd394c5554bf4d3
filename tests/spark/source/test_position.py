import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import CannotRead, DataLoss
from cordwood.spark.source.fetch_sizes import FetchSizes
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.range_position import RangePosition
from cordwood.wire.messages.fetch import PartitionData
from cordwood.wire.records import Record, encode_batch

STRICT, LENIENT = LossReport(fails=True), LossReport(fails=False)


def position(start: int, end: int, *, read_committed: bool = False) -> RangePosition:
    return RangePosition(TopicPartition("t", 0), start, end, read_committed=read_committed)


def answer(*offsets: int, high_watermark: int = 100, last_stable_offset: int = 100, cut: int = 0) -> PartitionData:
    """A batch with a record at each of these offsets, without the last `cut` bytes."""
    content = encode_batch([Record(offset, 0, None, b"v", ()) for offset in offsets]) if offsets else b""
    return PartitionData(
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        records=bytes(content[: len(content) - cut]),
    )


def test_the_position_goes_past_whole_batches() -> None:
    here = position(5, 20)
    fetched = here.take(answer(4, 5, 7))
    assert fetched is not None
    assert (fetched.position, here.offset, here.is_done) == (5, 8, False)


def test_a_range_is_done_when_the_position_is_past_its_end_even_without_a_record_there() -> None:
    here = position(5, 10)
    assert here.take(answer(5, 30)) is not None
    assert here.is_done


def test_a_gap_within_readable_offsets_is_confirmed_by_a_second_look() -> None:
    here = position(5, 10)
    assert here.take(answer()) is None
    assert not here.is_done
    assert here.take(answer()) is None
    assert here.is_done


def test_reads_do_not_wait_for_unreadable_records() -> None:
    here = position(5, 10, read_committed=True)
    for _ in range(5):
        assert here.take(answer(last_stable_offset=9)) is None
    assert not here.is_done


def test_a_cut_batch_alone_is_an_error() -> None:
    with pytest.raises(CannotRead, match=r"t-0 at offset 5: .* no complete batch"):
        position(5, 10).take(answer(5, 6, cut=1))


def test_lost_records_are_reported_with_both_offsets_or_skipped() -> None:
    with pytest.raises(DataLoss, match="records from offset 5 to 8 were deleted"):
        position(5, 10).out_of_range(8, 20, STRICT)
    here = position(5, 10)
    here.out_of_range(8, 20, LENIENT)
    assert here.offset == 8
    here.out_of_range(50, 60, LENIENT)
    assert here.is_done


def test_a_log_that_has_caught_up_in_the_meantime_is_read() -> None:
    here = position(5, 10)
    here.out_of_range(0, 7, STRICT)
    assert here.offset == 5


def test_known_offsets_limit_the_requested_range() -> None:
    sizes = FetchSizes()
    here = RangePosition(TopicPartition("t", 0), 5, 8, read_committed=False, sizes=sizes)
    assert here.wanted_bytes(10_000) == 10_000
    batch = answer(4, 5, 7)
    assert here.take(batch) is not None
    batch_size = len(batch.records or b"")
    following = RangePosition(TopicPartition("t", 0), 8, 28, read_committed=False, sizes=sizes)
    assert following.wanted_bytes(10_000) == 20 * batch_size // 4 + 2 * batch_size
    assert following.wanted_bytes(100) == 100


def test_another_partition_is_unknown() -> None:
    sizes = FetchSizes()
    sizes.learn(TopicPartition("t", 0), offsets=10, size=1_000, largest_batch=1_000)
    assert sizes.enough_for(TopicPartition("t", 1), 1, 10_000) == 10_000
