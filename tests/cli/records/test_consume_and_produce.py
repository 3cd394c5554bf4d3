"""`cordwood produce` and `cordwood consume`, against a running cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from cordwood import Producer
from tests.cli.cli_runner import Cli


def test_lines_go_in_and_come_out(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\ntwo\n\nthree")
    assert cli("consume", topic).stdout == b"one\ntwo\n\nthree\n"


def test_files_are_read_in_their_order(cli: Cli, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2")
    (tmp_path / "b").write_bytes(b"3\n")
    cli("produce", topic, str(tmp_path / "a"), "-", str(tmp_path / "b"), "--create", stdin=b"x\n")
    assert cli("consume", topic).lines == ["1", "2", "x", "3"]


def test_a_missing_file_is_named(cli: Cli, topic: str, tmp_path: Path) -> None:
    path = str(tmp_path / "nothing")
    assert cli("produce", topic, path, fails=2).stderr == f"cordwood: {path}: No such file or directory\n"


def test_a_missing_topic_is_an_error(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, stdin=b"a\n", fails=1)
    assert done.stderr.startswith(f"cordwood: there is no topic {topic} (")
    assert done.stderr.endswith("use --create to create it)\n")
    assert cli("consume", topic, fails=1).stderr.startswith(f"cordwood: there is no topic {topic}")


def test_keys_are_cut_at_the_separator_and_printed_with_it(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", "-K", ":", stdin=b"k1:v1\nk2:v:2\n")
    assert cli("consume", topic, "--keys").lines == ["k1\tv1", "k2\tv:2"]
    assert cli("consume", topic, "--keys", "-K", " => ").lines == ["k1 => v1", "k2 => v:2"]


def test_a_line_without_a_key_stops_the_input_and_is_named(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, "--create", "-K", ":", stdin=b"k:v\nnothing\nk:w\n", fails=2)
    told = f"cordwood: line 2: no key separator ':'\ncordwood: ended early, with 1 record delivered to {topic}\n"
    assert done.stderr == told
    assert cli("consume", topic).lines == ["v"]


def test_every_record_may_have_a_key_headers_and_a_partition(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "3")
    cli("produce", topic, "--key", "k", "-H", "a=1", "-H", "b=x=y", "-p", "2", stdin=b"v\n")
    (record,) = cli("consume", topic, "--json").json_lines
    assert record["timestamp"] > 0
    del record["timestamp"]
    assert record == {
        "topic": topic,
        "partition": 2,
        "offset": 0,
        "key": "k",
        "value": "v",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": "x=y"}],
    }


def test_a_missing_partition_is_reported_with_the_existing_ones(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "3")
    produced = cli("produce", topic, "-p", "3", stdin=b"v\n", fails=2)
    assert "no partition 3; it has 0 to 2" in produced.stderr
    assert "no partition 3; it has 0 to 2" in cli("consume", topic, "-p", "3", fails=2).stderr


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_compression_with_every_acknowledgement(cli: Cli, topic: str, compression: str, acks: str) -> None:
    cli("topic", "create", topic)
    lines = [f"line {number}" for number in range(200)]
    cli("produce", topic, "-z", compression, "--acks", acks, stdin="\n".join(lines).encode())
    assert cli("consume", topic).lines == lines


def test_null_differs_from_empty(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", "-K", ":", "--null", "NULL", stdin=b"a:NULL\nb:\nNULL:c\n")
    records = cli("consume", topic, "--json").json_lines
    assert [(record["key"], record["value"]) for record in records] == [("a", None), ("b", ""), (None, "c")]
    assert cli("consume", topic, "--keys", "--null", "-").lines == ["a\t-", "b\t", "-\tc"]


def test_another_delimiter_lets_values_have_lines(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", "-D", r"\0", stdin=b"a\nb\0c\0")
    assert cli("consume", topic, "-D", r"\0").stdout == b"a\nb\0c\0"


def test_json_output_can_be_used_as_input(cli: Cli, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "timestamp": 1_700_000_000_000, "headers": [{"name": "h", "value": "x"}]},
        {"keyBase64": "/w==", "valueBase64": "AP8=", "timestamp": 5, "headers": [{"name": "h", "valueBase64": "/w=="}]},
        {"key": None, "value": None, "timestamp": 6, "headers": [{"name": "n", "value": None}]},
        {"key": "é", "value": "日本", "timestamp": 7, "headers": []},
    ]
    text = "\n".join(json.dumps(record) for record in records).encode()
    cli("produce", topic, "--create", "--json", stdin=text)
    printed = cli("consume", topic, "--json")
    for record, expected in zip(printed.json_lines, records, strict=True):
        assert {name: record[name] for name in expected} == expected
    cli("produce", f"{topic}-copy", "--create", "--json", stdin=printed.stdout)
    copied = cli("consume", f"{topic}-copy", "--json").json_lines
    assert [record | {"topic": topic} for record in copied] == printed.json_lines


def test_json_keeps_partitions_by_default(cli: Cli, topic: str) -> None:
    line = b'{"value": "v", "partition": 2}\n'
    cli("topic", "create", topic, "-p", "3")
    cli("produce", topic, "--json", stdin=line)
    assert cli("consume", topic, "-p", "2").lines == ["v"]
    cli("topic", "create", f"{topic}-small")
    assert "no partition 2" in cli("produce", f"{topic}-small", "--json", stdin=line, fails=2).stderr
    cli("produce", f"{topic}-small", "--json", "--repartition", stdin=line)
    assert cli("consume", f"{topic}-small").lines == ["v"]


def test_bad_json_stops_the_input_and_is_named(cli: Cli, topic: str) -> None:
    done = cli("produce", topic, "--create", "--json", stdin=b'{"value": "a"}\n{"valeu": "b"}\n', fails=2)
    assert "line 2: unknown field 'valeu'; allowed are headers, key," in done.stderr
    assert cli("consume", topic).lines == ["a"]


def test_the_same_key_goes_to_the_same_partition(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "8")
    for _ in range(2):
        cli("produce", topic, "-K", ":", stdin=b"".join(b"key%d:v\n" % number for number in range(20)))
    partitions: dict[str, set[int]] = {}
    for record in cli("consume", topic, "--json").json_lines:
        partitions.setdefault(record["key"], set()).add(record["partition"])
    assert {len(found) for found in partitions.values()} == {1}
    # Where Kafka's own partitioner puts it.
    assert partitions["key0"] == {2}


def test_more_than_a_batch_keeps_its_order(cli: Cli, topic: str) -> None:
    lines = [f"{number:0100d}" for number in range(20_000)]
    cli("produce", topic, "--create", stdin="\n".join(lines).encode())
    assert cli("consume", topic).lines == lines


def test_only_the_oversized_record_of_a_batch_fails(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "--set", "max.message.bytes=10000")
    lines = [f"{number:01000d}" for number in range(100)]
    cli("produce", topic, stdin="\n".join(lines).encode())
    assert cli("consume", topic).lines == lines
    assert "MESSAGE_TOO_LARGE" in cli("produce", topic, stdin=b"x" * 20_000, fails=1).stderr


def test_a_keyless_record_for_a_compacted_topic_is_refused_with_the_brokers_reason(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "--set", "cleanup.policy=compact")
    assert "INVALID_RECORD" in cli("produce", topic, stdin=b"x\n", fails=1).stderr


# ---- several topics


def test_several_topics_and_patterns_are_read(cli: Cli, topic: str) -> None:
    for name in ("a", "b", "c"):
        cli("produce", f"{topic}-{name}", "--create", stdin=f"{name}1\n{name}2\n".encode())
    several = ["consume", f"{topic}-a", f"{topic}-[bc]", "--format", r"{topic} {value}\n"]
    expected = [f"{topic}-{name} {name}{number}" for name in ("a", "b", "c") for number in (1, 2)]
    assert sorted(cli(*several).lines) == expected
    assert sorted(cli("consume", f"{topic}-*", "-n", "3", "--from", "-1").lines) == ["a2", "b2", "c2"]
    assert cli("consume", f"{topic}-a", f"{topic}-c", "-p", "0", "--from", "0=1", "--json").json_lines[0]["offset"] == 1
    done = cli("consume", f"{topic}-a", f"{topic}-x", fails=1)
    assert done.stderr.startswith(f"cordwood: there is no topic {topic}-x (did you mean {topic}-")
    assert cli("consume", f"{topic}-x*", fails=1).stderr == f"cordwood: no topic matches '{topic}-x*'\n"
    assert "has no partition 1" in cli("consume", f"{topic}-*", "-p", "1", fails=2).stderr


def test_a_group_reads_several_topics_and_patterns(cli: Cli, topic: str) -> None:
    for name in ("a", "b", "c"):
        cli("produce", f"{topic}-{name}", "--create", stdin=f"{name}\n".encode())
    group = ["--group", f"g-{topic}"]
    assert sorted(cli("consume", f"{topic}-a", f"{topic}-b", *group).lines) == ["a", "b"]
    assert cli("consume", f"{topic}-*", *group).lines == ["c"]
    assert cli("consume", f"{topic}-x*", *group, fails=1).stderr == f"cordwood: no topic matches '{topic}-x*'\n"


# ---- from where to where


@pytest.fixture
def numbers(cli: Cli, topic: str) -> str:
    """A topic with 0 to 9 at times 1000 to 1009."""
    cli("topic", "create", topic)
    lines = [json.dumps({"value": str(number), "timestamp": 1000 + number}) for number in range(10)]
    cli("produce", topic, "--json", stdin="\n".join(lines).encode())
    return topic


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "0123456789"),
        (["--from", "earliest"], "0123456789"),
        (["--from", "7"], "789"),
        (["--from", "-2"], "89"),
        (["--from", "-99"], "0123456789"),
        (["--from", "@1004"], "456789"),
        (["--from", "@9999"], ""),
        (["--from", "@-1h"], ""),
        (["--from", "10"], ""),
        (["--from", "0=8"], "89"),
        (["--until", "3"], "012"),
        (["--until", "-3"], "0123456"),
        (["--until", "@1002"], "01"),
        (["--from", "2", "--until", "5"], "234"),
        (["--from", "5", "--until", "5"], ""),
        (["--from", "-2", "--until", "2"], ""),
        (["--count", "4"], "0123"),
        (["--from", "8", "--count", "4"], "89"),
        (["--count", "0"], ""),
        (["--follow", "--count", "10"], "0123456789"),
        (["--read-committed"], "0123456789"),
    ],
)
def test_a_part_is_read(cli: Cli, numbers: str, options: list[str], expected: str) -> None:
    assert cli("consume", numbers, *options, "-F", "{value}").stdout.decode() == expected


def test_a_missing_offset_is_reported_with_the_existing_range(cli: Cli, numbers: str) -> None:
    done = cli("consume", numbers, "--from", "11", fails=2)
    assert done.stderr == f"cordwood: {numbers}-0 has no offset 11; it begins at 0 and ends at 10\n"


def test_an_invalid_position_is_reported_with_the_valid_ones(cli: Cli, numbers: str) -> None:
    for start, end in (("5", "2"), ("@1004", "@1002"), ("@-1m", "@-1h")):
        done = cli("consume", numbers, "--from", start, "--until", end, fails=2)
        assert "--until is before --from" in done.stderr
    assert "earliest, latest, an offset" in cli("consume", numbers, "--from", "begin", fails=2).stderr
    assert "partition 4 is not read; 0 are" in cli("consume", numbers, "--from", "4=1", fails=2).stderr


def test_partitions_are_read_from_their_own_places(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "2")
    for partition in "01":
        cli("produce", topic, "-p", partition, stdin=f"a{partition}\nb{partition}\nc{partition}\n".encode())
    assert sorted(cli("consume", topic, "--from", "1=2", "--from", "-2").lines) == ["b0", "c0", "c1"]
    assert cli("consume", topic, "-p", "1", "--from", "1=1").lines == ["b1", "c1"]


def test_a_format_prints_its_fields(cli: Cli, numbers: str) -> None:
    text = r"{topic}/{partition}@{offset} {timestamp} {time} [{key}] {value} {value_size} {key_size} {{}}\n"
    assert cli("consume", numbers, "--from", "3", "-n", "1", "-F", text, "--null", "~").lines == [
        f"{numbers}/0@3 1003 1970-01-01T00:00:01.003+00:00 [~] 3 1 -1 {{}}"
    ]


def test_a_format_with_an_unknown_field_names_those_there_are(cli: Cli, numbers: str) -> None:
    done = cli("consume", numbers, "-F", "{vlaue}", fails=2)
    assert "{vlaue}" in done.stderr
    assert "{value_size}" in done.stderr


def test_two_ways_to_print_are_an_error(cli: Cli, numbers: str) -> None:
    assert "give only one of --keys, --format and --json" in cli("consume", numbers, "--json", "--keys", fails=2).stderr


@pytest.mark.parametrize("options", [[], ["--read-committed"]])
def test_reading_ends_behind_the_marker_of_a_transaction(cli: Cli, topic: str, options: list[str]) -> None:
    cli("topic", "create", topic)
    with Producer(bootstrap_servers=cli.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, "in a transaction")
    assert cli("consume", topic, *options).lines == ["in a transaction"]
