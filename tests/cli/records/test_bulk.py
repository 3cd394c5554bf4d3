"""Whole blocks of lines and records, on a cluster: what sending and printing them one by one would give."""

import os
import socket
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cordwood import Consumer, Producer, TopicPartition
from cordwood.cli.records.record_format import JSON_LAYOUT, Layout, key_value_layout, parse_format, value_layout
from cordwood.cli.terminal.input import read_available
from cordwood.wire.record import ConsumerRecord
from tests.cli.cli_runner import Cli
from tests.wire.record_texts import text_of

PARTITIONS = 3
MIXED_COUNT = 300

few_clusters = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
pieces = st.sampled_from([b"", b"a", b":", b"::", b"\r", b"\0", b"~", b"\xff\xfe", "é€".encode(), b"x" * 300_000])
lines_given = st.lists(st.lists(pieces, max_size=4).map(b"".join), max_size=30)


def records_of(cli: Cli, topic: str) -> dict[int, list[ConsumerRecord]]:
    found: dict[int, list[ConsumerRecord]] = {number: [] for number in range(PARTITIONS)}
    with Consumer(bootstrap_servers=cli.bootstrap) as consumer:
        assigned = [TopicPartition(topic, number) for number in found]
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(assigned)
        while any(consumer.position(each) < ends[each] for each in assigned):
            for partition, records in consumer.poll(1.0).items():
                found[partition.partition] += records
    return found


def contents(records: dict[int, list[ConsumerRecord]]) -> dict[int, list[object]]:
    return {number: [(each.key, each.value, each.headers) for each in some] for number, some in records.items()}


@few_clusters
@given(
    lines=lines_given,
    delimiter=st.sampled_from([b"\n", b"\r\n", b"\0"]),
    separator=st.sampled_from([None, b":", b"::"]),
    null=st.sampled_from([None, b"~", b""]),
    headers=st.sampled_from([(), (("h", b"1"), ("h", b"")), (("é", b"2"),)]),
    key=st.sampled_from([None, b"k", b"~", b""]),
    has_last_end=st.booleans(),
)
@example(lines=[b"a", b"~"], delimiter=b"\n", separator=None, null=b"~", headers=(), key=b"~", has_last_end=True)
@example(lines=[b":a", b"~:~"], delimiter=b"\n", separator=b":", null=b"~", headers=(), key=None, has_last_end=False)
def test_lines_become_the_records_that_sending_one_by_one_makes(
    cli: Cli,
    lines: Sequence[bytes],
    delimiter: bytes,
    separator: bytes | None,
    null: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    key: bytes | None,
    has_last_end: bool,
) -> None:
    text = delimiter.join([*lines, b""] if has_last_end else lines)
    lines = text.split(delimiter)
    if not lines[-1]:
        lines.pop()
    if separator is not None:
        key = None
        lines = [line if separator in line else b"key" + separator + line for line in lines]
        text = b"".join(line + delimiter for line in lines)
    names = [f"t-{os.urandom(6).hex()}" for _ in range(2)]
    cli("topic", "create", *names, "-p", str(PARTITIONS))

    with Producer(bootstrap_servers=cli.bootstrap) as producer:
        for line in lines:
            own, value = (key, line) if separator is None else line.split(separator, 1)
            producer.send(
                names[0],
                None if value == null else value,
                None if own == null else own,
                # Records without a key go to a partition for a batch: which, is not the same twice.
                partition=1 if own is None or own == null else None,
                headers=headers,
            )

    options = ["--delimiter", "".join(f"\\x{byte:02x}" for byte in delimiter)]
    options += [] if separator is None else ["-K", separator.decode()]
    options += [] if null is None else ["--null", null.decode()]
    options += [] if key is None else ["--key", key.decode()]
    for name, content in headers:
        options += ["-H", f"{name}={content.decode()}"]
    keyless = separator is None and (key is None or key == null)
    has_null_keys = (
        separator is not None and null is not None and any(line.split(separator, 1)[0] == null for line in lines)
    )
    options += ["-p", "1"] if keyless else []
    cli("produce", names[1], *options, stdin=text)

    expected, found = (contents(records_of(cli, name)) for name in names)
    if has_null_keys:
        # Where those go is not the same twice.
        expected, found = ({0: sorted(chain.from_iterable(some.values()), key=repr)} for some in (expected, found))
    assert found == expected


@pytest.fixture(scope="module")
def mixed(bootstrap: str) -> str:
    """A topic with records of all kinds."""
    cli, topic = Cli(bootstrap), f"t-{os.urandom(6).hex()}"
    cli("topic", "create", topic, "-p", str(PARTITIONS), "--set", "message.timestamp.type=CreateTime")
    values = [None, b"", b"text", "é€𝄞".encode(), b"\xff\xfe\0", b'"quoted"\\\n\t\x01', b"long " * 100_000]
    all_headers: list[list[tuple[str, bytes | None]]] = [[], [("h", b"1")], [("é", None), ("h", b"\xff"), ("h", b"")]]
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(MIXED_COUNT):
            producer.send(
                topic,
                values[number % len(values)] if number % 11 else b"%d" % number,
                values[number // 7 % 6],
                partition=number % PARTITIONS,
                timestamp_ms=1_700_000_000_000 + number * 7919,
                headers=all_headers[number % 3],
            )
    return topic


@pytest.mark.parametrize(
    ("options", "layout"),
    [
        ([], value_layout(b"\n")),
        (["--keys", "-K", "::", "-D", r"\0"], key_value_layout(b"::", b"\0")),
        (["--json"], JSON_LAYOUT),
        (
            ["--format", r"{topic} {partition} {offset} {timestamp} {time} {key} {value_size} {key_size} {headers}\n"],
            parse_format(r"{topic} {partition} {offset} {timestamp} {time} {key} {value_size} {key_size} {headers}\n"),
        ),
    ],
    ids=["values", "keys", "json", "format"],
)
@pytest.mark.parametrize("null", ["", "NULL"])
def test_records_are_printed_as_one_by_one(
    cli: Cli, mixed: str, options: Sequence[str], layout: Layout, null: str
) -> None:
    records = records_of(cli, mixed)
    assert sum(map(len, records.values())) == MIXED_COUNT
    for partition, expected in records.items():
        printed = cli("consume", mixed, "-p", str(partition), "--null", null, *options).stdout
        assert printed == b"".join(text_of(layout, null.encode(), record) for record in expected)


@pytest.mark.parametrize("count", [1, 7, 99, 100, 101])
def test_a_count_ends_within_a_batch(cli: Cli, mixed: str, count: int) -> None:
    records = records_of(cli, mixed)[0]
    assert len(records) == MIXED_COUNT // PARTITIONS
    assert cli("consume", mixed, "-p", "0", "-n", str(count), "-F", r"{offset}\n").lines == [
        str(record.offset) for record in records[:count]
    ]


def test_a_bad_line_far_behind_is_named_and_all_before_it_are_sent(cli: Cli, topic: str) -> None:
    lines = [b"k:%d" % number for number in range(200_000)]
    text = b"\n".join([*lines[:150_000], b"no key", *lines[150_000:]])
    done = cli("produce", topic, "--create", "-K", ":", stdin=text, fails=2)
    assert done.stderr == (
        "cordwood: line 150001: no key separator ':'\n"
        f"cordwood: ended early, with 150,000 records delivered to {topic}\n"
    )
    assert cli("consume", topic, "--from", "-1").lines == ["149999"]


def test_a_separate_process_does_the_same(cli: Cli, topic: str) -> None:
    """It reads its arguments without typer."""
    cli("topic", "create", topic, "-p", "2")
    text = b"".join(b"%d:value %d\n" % (number, number) for number in range(100_000))
    with cli.start("produce", topic, "-K", ":", "-H", "a=b", "-z", "lz4", "--acks=1", "-q") as writer:
        writer.write(text)
        writer.stdin.close()
        assert writer.ended() == (0, "")
    with cli.start("consume", topic, "--keys", "-K", ":", "--from", "0=earliest", "-p", "0", "-p", "1") as reader:
        assert sorted(reader.stdout.read().splitlines()) == sorted(text.splitlines())
        assert reader.ended() == (0, "")


def test_invalid_process_arguments_are_reported_by_typer(cli: Cli) -> None:
    for arguments, message in [
        (["produce"], "Missing argument"),
        (["consume", "t", "--count", "many"], "--count"),
        (["consume", "t", "--count", "-1"], "--count"),
        (["produce", "t", "-p", "-2"], "--partition"),
        (["consume", "t", "--json", "--keys"], "give only one of --keys, --format and --json"),
        (["consume", "t", "--nothing"], "--nothing"),
    ]:
        with cli.start(*arguments) as process:
            code, stderr = process.ended()
            assert (code, stderr.count("\n")) == (2, 1), stderr
            assert stderr.startswith("cordwood: ")
            assert message in stderr
            assert f"(see cordwood {arguments[0]} --help)" in stderr


# ---- input


def test_all_available_batches_are_read_together() -> None:
    """More than one read brings."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = b"line\n" * 30_000
        theirs.sendall(sent)
        assert read_available(ours.fileno()) == sent


def test_a_read_waits_for_no_more_than_there_is() -> None:
    out, into = os.pipe()
    try:
        os.write(into, b"first\n")
        os.write(into, b"second\n")
        assert read_available(out) == b"first\nsecond\n"
        os.write(into, b"third")
        os.close(into)
        assert read_available(out) == b"third"
        assert read_available(out) == b""
    finally:
        os.close(out)
