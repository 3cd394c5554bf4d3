"""Command line parsing, without a cluster."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from cordwood.cli.framework.assignments import parse_changes, parse_pairs
from cordwood.cli.framework.name_choice import choose_names
from cordwood.cli.framework.times import duration_text, parse_duration_ms, time_text
from cordwood.cli.records.line_records import LineOptions, json_parser
from cordwood.cli.records.record_format import JSON_LAYOUT, BadFormat, Layout, parse_format, unescape
from cordwood.cli.records.record_json import BadJson, parse_record
from cordwood.cli.records.spots import (
    AtOffset,
    AtTime,
    BadSpot,
    BeforeEnd,
    Earliest,
    Latest,
    Spot,
    parse_spot,
    parse_spots,
)
from cordwood.cli.terminal.lines import MAX_LINE_BYTES, LineBlocks, LineTooLong
from cordwood.cli.topics.partition_choice import PartitionChoice, parse_partition_choices
from cordwood.client.admin.configs import AlterOperation, ConfigChange
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting, ClientError
from cordwood.wire.record import ConsumerRecord, Record
from cordwood.wire.record_text import MAX_OFFSET, RecordText
from cordwood.wire.records import BatchReader, encode_batch, read_header

PLACE = ("orders", 2)
NOW_MS = 1_000_000_000

optional_bytes = st.none() | st.binary(max_size=20)
header_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
records = st.builds(
    ConsumerRecord,
    topic=st.just("orders"),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 2),
    timestamp=st.integers(-1, 2**63 - 1),
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(header_names, optional_bytes), max_size=3).map(tuple),
)


def rendered(layout: Layout, null: bytes, record: ConsumerRecord) -> bytes:
    batch = encode_batch([Record(*record[2:7])])
    text = RecordText(layout, null)
    assert text.read(BatchReader(batch, 0, read_header(batch), record.topic, record.partition, 0), 2, MAX_OFFSET) == 1
    return bytes(text.take())


# ---- records as JSON


@given(record=records)
def test_a_record_survives_json(record: ConsumerRecord) -> None:
    line = rendered(JSON_LAYOUT, b"", record)
    assert line.count(b"\n") == 1
    parsed = parse_record(line)
    assert (parsed.key, parsed.value, tuple(parsed.headers)) == (record.key, record.value, record.headers)
    assert parsed.partition == record.partition
    assert parsed.timestamp == (None if record.timestamp == -1 else record.timestamp)


def test_values_that_are_not_strings_are_written_as_json() -> None:
    parsed = parse_record(b'{"key": 7, "value": {"a": [1, true, "\xc3\xa9"]}, "headers": {"h": "v", "n": null}}')
    assert (parsed.key, parsed.value) == (b"7", '{"a":[1,true,"é"]}'.encode())
    assert parsed.headers == [("h", b"v"), ("n", None)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not an object"),
        (b'{"val": 1}', "unknown field 'val'; allowed are headers, key, keyBase64"),
        (b'{"value": "a", "valueBase64": "YQ=="}', "both value and valueBase64"),
        (b'{"valueBase64": "a"}', "valueBase64 is not base64"),
        (b'{"valueBase64": 7}', "valueBase64 is not base64"),
        (b'{"value": "\\ud800"}', "value cannot be written as UTF-8"),
        (b'{"partition": -1}', "partition is -1, not a whole number"),
        (b'{"partition": true}', "partition is True"),
        (b'{"timestamp": "now"}', "timestamp is 'now'"),
        (b'{"timestamp": 9223372036854775808}', "timestamp is 9223372036854775808"),
        (b'{"headers": "h"}', "headers are neither a list"),
        (b'{"headers": [{"value": "v"}]}', "a header is not an object such as"),
        (b'{"headers": [["h", "v"]]}', "a header is not an object such as"),
    ],
)
def test_json_that_is_not_a_record_is_reported(line: bytes, reason: str) -> None:
    with pytest.raises(BadJson) as caught:
        parse_record(line)
    assert str(caught.value).startswith(reason)


# ---- lines


def blocks_of(chunks: Sequence[bytes], delimiter: bytes) -> list[bytes]:
    """The lines in them, as whoever sends them cuts them."""
    blocks = LineBlocks(delimiter)
    found = []
    for chunk in chunks:
        text = blocks.feed(chunk)
        assert not text or delimiter in text
        *lines, rest = text.split(delimiter)
        blocks.put_back(rest)
        found += lines
    return [*found, *filter(None, [blocks.end()])]


@given(
    lines=st.lists(st.binary(max_size=8).filter(lambda line: b"\r\n" not in line and not line.endswith(b"\r"))),
    cuts=st.lists(st.integers(0, 200), max_size=10),
)
def test_lines_are_the_same_however_the_input_comes(lines: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(line + b"\r\n" for line in lines)
    edges = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    assert blocks_of([whole[start:end] for start, end in pairwise(edges)], b"\r\n") == lines


@given(text=st.text("a:", max_size=40), cuts=st.lists(st.integers(0, 40), max_size=20))
def test_a_delimiter_that_could_begin_within_itself_is_found_from_the_left(text: str, cuts: list[int]) -> None:
    whole = text.encode()
    edges = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    expected = whole.split(b"::")
    assert blocks_of([whole[start:end] for start, end in pairwise(edges)], b"::") == [
        *expected[:-1],
        *filter(None, expected[-1:]),
    ]


@pytest.mark.parametrize("cut", range(9))
def test_a_delimiter_may_lie_across_two_chunks(cut: int) -> None:
    blocks = LineBlocks(b"\r\n")
    text = b"ab\r\ncd\r\n"
    first = blocks.feed(text[:cut])
    assert (first == b"") == (cut < 4)
    blocks.put_back(first)
    assert blocks.feed(text[cut:]) == text if cut < 8 else first == text


def test_a_last_line_needs_no_end() -> None:
    assert blocks_of([b"a\nb"], b"\n") == [b"a", b"b"]
    assert blocks_of([b"a\n"], b"\n") == [b"a"]


def test_input_without_a_delimiter_does_not_fill_the_memory() -> None:
    blocks = LineBlocks(b"\n")
    half = bytes(MAX_LINE_BYTES // 2 + 1)
    assert blocks.feed(half) == b""
    with pytest.raises(LineTooLong, match=f"longer than {MAX_LINE_BYTES} bytes"):
        blocks.feed(half)


def test_options_apply_to_fields_missing_in_json() -> None:
    options = LineOptions(key=b"k", headers=[("h", b"v")])
    parse = json_parser(options, repartition=False)
    assert parse(b'{"value": "x"}').key == b"k"
    own = parse(b'{"key": "own", "value": "x", "headers": {"a": "b"}, "partition": 4}')
    assert (own.key, own.headers, own.partition) == (b"own", [("a", b"b"), ("h", b"v")], 4)
    assert json_parser(options, repartition=True)(b'{"partition": 4}').partition is None
    assert json_parser(LineOptions(partition=1), repartition=False)(b'{"partition": 4}').partition == 1


# ---- formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{value}", b"v"),
        (r"{key}\t{value}\n", b"k\tv\n"),
        ("{topic}-{partition}@{offset}", b"orders-2@9"),
        ("{timestamp} {time}", b"1700000000123 2023-11-14T22:13:20.123+00:00"),
        ("{headers}", b"a=1,b=~"),
        ("{key_size},{value_size}", b"1,1"),
        ("{{{value}}}", b"{v}"),
        (r"\\\x41\0", b"\\A\0"),
        ("", b""),
    ],
)
def test_a_format_is_filled_in(text: str, expected: bytes) -> None:
    record = ConsumerRecord(*PLACE, 9, 1_700_000_000_123, b"k", b"v", (("a", b"1"), ("b", None)))
    assert rendered(parse_format(text), b"~", record) == expected


def test_null_is_printed_as_requested() -> None:
    record = ConsumerRecord(*PLACE, 0, -1, None, None)
    assert rendered(parse_format("{key}|{value}|{key_size}|{time}"), b"~", record) == b"~|~|-1|-"


@pytest.mark.parametrize("timestamp", [2**63 - 1, 300_000_000_000_000])
def test_a_time_beyond_the_calendar_stays_a_number(timestamp: int) -> None:
    record = ConsumerRecord(*PLACE, 0, timestamp, None, None)
    assert rendered(parse_format("{time}"), b"", record) == str(timestamp).encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{val}", "unknown field {val}; there are {topic}, {partition}"),
        ("{}", "unknown field {}; there are"),
        ("{value", "a '{' by itself"),
        ("value}", "a '}' by itself"),
        (r"\q", "unknown escape"),
        ("\\", "unknown escape"),
        (r"\x4", "unknown escape"),
    ],
)
def test_an_invalid_format_is_reported(text: str, reason: str) -> None:
    with pytest.raises(BadFormat) as caught:
        parse_format(text)
    assert str(caught.value).startswith(reason)


def test_escapes_are_those_that_shells_leave() -> None:
    assert unescape(r"a\tb\n\r\0\\\x7c") == "a\tb\n\r\0\\|"


# ---- places


@pytest.mark.parametrize(
    ("text", "spot"),
    [
        ("earliest", Earliest()),
        ("beginning", Earliest()),
        ("latest", Latest()),
        ("end", Latest()),
        ("0", AtOffset(0)),
        ("1200", AtOffset(1200)),
        ("-10", BeforeEnd(10)),
        ("@1714564800000", AtTime(1_714_564_800_000)),
        ("@2024-05-01T12:00:00Z", AtTime(1_714_564_800_000)),
        ("@2024-05-01T14:00:00.250+02:00", AtTime(1_714_564_800_250)),
        ("@-90s", AtTime(NOW_MS - 90_000)),
        ("@-2h", AtTime(NOW_MS - 7_200_000)),
        ("@-99999d", AtTime(0)),
    ],
)
def test_a_place_is_read(text: str, spot: Spot) -> None:
    assert parse_spot(text, NOW_MS) == spot


@pytest.mark.parametrize("text", ["", "first", "1.5", "--3", "@", "@yesterday", "@-1y", "@2024-13-01", "٣"])
def test_an_invalid_position_is_reported_with_the_valid_ones(text: str) -> None:
    with pytest.raises(BadSpot, match="earliest, latest, an offset"):
        parse_spot(text, NOW_MS)


def test_a_partition_may_have_its_own_start_offset() -> None:
    spots = parse_spots(["1=latest", "5", "2=@7"], [0, 1, 2], NOW_MS, Earliest())
    assert spots == {0: AtOffset(5), 1: Latest(), 2: AtTime(7)}
    assert parse_spots([], [0], NOW_MS, Earliest()) == {0: Earliest()}


def test_a_position_in_an_unread_partition_is_reported() -> None:
    with pytest.raises(BadSetting, match="partition 7 is not read; 0, 1 are"):
        parse_spots(["7=0"], [0, 1], NOW_MS, Earliest())


# ---- assignments


def test_pairs_are_cut_at_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_arguments_without_an_equals_sign_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
        parse_pairs([text], "--set")


def test_changes_set_append_and_subtract() -> None:
    changes = parse_changes(["a=1", "b+=x", "c-=y=z", "d=+=1"], "--set")
    assert changes == [
        ConfigChange("a", AlterOperation.SET, "1"),
        ConfigChange("b", AlterOperation.APPEND, "x"),
        ConfigChange("c", AlterOperation.SUBTRACT, "y=z"),
        ConfigChange("d", AlterOperation.SET, "+=1"),
    ]


@pytest.mark.parametrize("text", ["a", "=1", "+=1", "-=1", ""])
def test_an_unchanged_registration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
        parse_changes([text], "--set")


# ---- lengths of time


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0ms", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("P7D", 604_800_000),
    ],
)
def test_a_length_of_time_is_read(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "-5m", "5 m", "1.5h", "h", "P", "PT", "P1DT", "P1H", "٣s"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; expected forms are 500ms, 90s"):
        parse_duration_ms(text)


def test_times_are_shown_in_readable_form() -> None:
    told = [duration_text(duration_ms) for duration_ms in (0, 999, 1_000, 61_000, 7_500_000, 90_061_000)]
    assert told == ["0ms", "999ms", "1s", "1m 1s", "2h 5m", "1d 1h"]
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123+00:00"


# ---- names and partitions


def test_partitions_are_chosen_by_topic_and_number() -> None:
    whole, some = parse_partition_choices(["orders", "bills:0,12"], "--topic")
    assert (whole, some) == (PartitionChoice("orders", ()), PartitionChoice("bills", (0, 12)))
    assert whole.has(TopicPartition("orders", 7))
    assert not whole.has(TopicPartition("bills", 7))
    assert some.has(TopicPartition("bills", 12))
    assert not some.has(TopicPartition("bills", 1))


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:0,", "orders:-1", "orders:0:1", "orders:x"])
def test_arguments_that_are_not_partitions_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not TOPIC or TOPIC:PARTITION,PARTITION"):
        parse_partition_choices([text], "--topic")


def test_names_are_chosen_by_themselves_and_by_patterns() -> None:
    known = ["a", "a[1]", "b"]
    assert choose_names("group", known, []) == known
    assert choose_names("group", known, ["a*"]) == ["a", "a[1]"]
    assert choose_names("group", known, ["a[1]"]) == ["a[1]"], "a name that looks like a pattern is a name"
    assert choose_names("group", known, ["c", "d*"], missing_ok=True) == []
    with pytest.raises(ClientError, match="no group matches 'c\\*'"):
        choose_names("group", known, ["c*"])
