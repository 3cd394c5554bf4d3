import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.cluster import TopicPartition
from cordwood.client.offsets import EARLIEST, LATEST
from cordwood.spark.errors import CannotRead
from cordwood.spark.options import Options
from cordwood.spark.source.offsets import Edge, OffsetsOption, offsets_from_json, offsets_to_json, read_edge
from cordwood.spark.source.options import KNOWN

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 2000)), st.integers(0, 2**63 - 1)
)


def starting(**options: str) -> OffsetsOption:
    return read_edge(Options(options, known=KNOWN), Edge.STARTING, default=LATEST, forbidden=None)


@given(OFFSETS)
def test_offsets_read_as_they_were_written(offsets: dict[TopicPartition, int]) -> None:
    assert offsets_from_json(json.loads(json.dumps(offsets_to_json(offsets)))) == offsets


def test_offsets_are_written_as_sparks_connector_does_and_in_one_order() -> None:
    one = json.dumps(offsets_to_json({B0: 7, A1: 5, A0: 3}))
    other = json.dumps(offsets_to_json({A0: 3, A1: 5, B0: 7}))
    assert one == other == '{"a": {"0": 3, "1": 5}, "b": {"0": 7}}'


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    offsets = {TopicPartition("a", number): 0 for number in (10, 9, 2)}
    assert list(offsets_to_json(offsets)["a"]) == ["2", "9", "10"]


def test_without_an_option_the_default_holds_everywhere() -> None:
    assert starting().wanted(A0) == LATEST


def test_words_name_both_ends() -> None:
    assert starting(startingOffsets="earliest").wanted(A0) == EARLIEST
    assert starting(startingOffsets="Latest").wanted(A0) == LATEST


def test_offsets_are_named_by_partition_with_minus_numbers_for_the_ends() -> None:
    option = starting(startingOffsets='{"a":{"0":23,"1":-2}}')
    assert (option.wanted(A0), option.wanted(A1)) == (23, EARLIEST)


def test_a_time_for_all_goes_before_times_and_times_before_offsets() -> None:
    times = '{"a":{"0":5}}'
    assert starting(startingTimestamp="9", startingOffsetsByTimestamp=times, startingOffsets="earliest").wanted(A0) == 9
    assert starting(startingOffsetsByTimestamp=times, startingOffsets="earliest").wanted(A0) == 5


def test_explicit_offsets_must_cover_all_partitions() -> None:
    option = starting(startingOffsets='{"a":{"0":23}}')
    option.check_partitions([A0])
    with pytest.raises(CannotRead, match="startingOffsets is missing a-1"):
        option.check_partitions([A0, A1])
    with pytest.raises(CannotRead, match="lists a-0, which is not read"):
        option.check_partitions([])


@pytest.mark.parametrize(
    ("options", "may_be"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"a":{"0":5}}'}, False),
        ({"startingOffsets": '{"a":{"0":-1}}'}, True),
        ({"startingTimestamp": "5"}, False),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, True),
    ],
)
def test_it_is_known_whether_a_start_moves_with_time(options: dict[str, str], may_be: bool) -> None:
    assert starting(**options).may_be_latest is may_be
