"""`cordwood group`, against a running cluster."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from tests.cli.cli_group_members import Protocol, member
from tests.cli.cli_runner import PATIENCE_S, Cli

PROTOCOLS: tuple[Protocol, ...] = ("classic", "consumer")

# Records of three partitions: how many each has, and when they are from.
COUNTS = (4, 3, 0)
FIRST_MS = 1_700_000_000_000
STEP_MS = 1_000


@pytest.fixture
def read_topic(cli: Cli, topic: str) -> str:
    """Offsets 0 to 3 in partition 0 and 0 to 2 in partition 1, a second apart; partition 2 is empty."""
    return _written(cli, topic)


@pytest.fixture
def group(cli: Cli, read_topic: str) -> str:
    """One without members, which is at offset 2 of partitions 0 and 1."""
    name = f"g-{read_topic}"
    cli("group", "reset-offsets", name, "--topic", f"{read_topic}:0,1", "--to", "2", "--create")
    return name


@pytest.fixture(scope="module")
def active(bootstrap: str) -> Iterator[str]:
    """A topic with two groups that have a member each: classic-TOPIC and consumer-TOPIC."""
    topic = _written(Cli(bootstrap), f"t-{uuid.uuid4().hex[:12]}")
    with member(bootstrap, f"classic-{topic}", topic, "classic") as classic:
        classic.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        with member(bootstrap, f"consumer-{topic}", topic, "consumer") as consumer:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            yield topic


def _written(cli: Cli, topic: str) -> str:
    cli("topic", "create", topic, "-p", "3", "--set", "retention.ms=-1")
    for partition, count in enumerate(COUNTS):
        records = [{"value": "v", "timestamp": FIRST_MS + number * STEP_MS} for number in range(count)]
        lines = "".join(json.dumps(record) + "\n" for record in records)
        cli("produce", topic, "--json", "--partition", str(partition), stdin=lines.encode())
    return topic


def committed(cli: Cli, group: str) -> dict[int, int]:
    """By partition; all is in one topic."""
    (described,) = cli("group", "describe", group, "--offsets", "--json").json
    return {offset["partition"]: offset["committedOffset"] for offset in described["offsets"]}


# ---- list


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_listed_with_its_state_type_protocol_and_members(cli: Cli, active: str, protocol: str) -> None:
    assert cli("group", "list", f"{protocol}-{active}").lines == [
        f"{protocol}-{active}\tStable\t{protocol}\tconsumer\t1"
    ]


def test_a_group_that_only_has_offsets_is_listed_as_empty(cli: Cli, group: str) -> None:
    (listed,) = cli("group", "list", group, "--json").json
    assert listed.pop("coordinator") in {broker["id"] for broker in cli("cluster", "--json").json["brokers"]}
    assert listed == {"groupId": group, "state": "Empty", "type": "classic", "protocolType": "", "members": 0}


def test_groups_are_listed_by_state(cli: Cli, active: str, group: str) -> None:
    def names(*states: str) -> set[str]:
        return {listed["groupId"] for listed in cli("group", "list", *states, "--json").json}

    assert group in names("--state", "empty")
    assert f"classic-{active}" not in names("--state", "empty")
    assert {f"classic-{active}", f"consumer-{active}"} <= names("--state", "stable")
    assert {f"classic-{active}", group} <= names("--state", "Stable", "--state", "Empty")


def test_groups_are_listed_by_type(cli: Cli, active: str) -> None:
    assert cli("group", "list", f"*-{active}", "--type", "consumer").lines == [
        f"consumer-{active}\tStable\tconsumer\tconsumer\t1"
    ]
    assert len(cli("group", "list", f"*-{active}", "--type", "consumer", "--type", "classic").lines) == 2


def test_an_unknown_state_is_refused_with_the_valid_ones(cli: Cli) -> None:
    refused = cli("group", "list", "--state", "asleep", fails=2).stderr
    assert refused.startswith("cordwood: Invalid value for '--state' / '-s': 'asleep' is not one of 'stable', 'empty'")


# ---- describe


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_description_has_members_and_assignments(cli: Cli, active: str, protocol: str) -> None:
    (described,) = cli("group", "describe", f"{protocol}-{active}", "--json").json
    (told,) = described["members"]
    assert (described["type"], described["state"]) == (protocol, "Stable")
    assert (told["clientId"], told["host"]) == (f"client-of-{protocol}-{active}", "127.0.0.1")
    assert told["assignment"] == [{"topic": active, "partitions": [0, 1, 2]}]


def test_only_the_newer_kind_of_group_has_epochs_and_a_target(cli: Cli, active: str) -> None:
    classic, consumer = cli("group", "describe", f"classic-{active}", f"consumer-{active}", "--json").json
    (told,) = consumer["members"]
    assert told["memberEpoch"] == consumer["groupEpoch"] == consumer["assignmentEpoch"] > 0
    assert told["targetAssignment"] == told["assignment"]
    assert told["subscribedTopics"] == [active]
    assert (classic["groupEpoch"], classic["members"][0]["targetAssignment"]) == (None, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_lag_is_shown_for_each_partition_with_its_member(cli: Cli, active: str, protocol: str) -> None:
    (described,) = cli("group", "describe", f"{protocol}-{active}", "--json").json
    (told,) = described["members"]
    seen = [
        (offset["partition"], offset["committedOffset"], offset["endOffset"], offset["lag"])
        for offset in described["offsets"]
    ]
    assert seen == [(0, 1, 4, 3), (1, None, 3, None), (2, None, 0, None)]
    assert {offset["memberId"] for offset in described["offsets"]} == {told["memberId"]}


def test_a_groups_lag_is_not_known_while_a_partition_with_records_has_none(cli: Cli, active: str) -> None:
    (described,) = cli("group", "describe", f"classic-{active}", "--json").json
    assert described["lag"] is None


def test_the_lag_grows_with_new_records(cli: Cli, read_topic: str, group: str) -> None:
    def lag() -> Any:
        return cli("group", "describe", group, "--json").json[0]["lag"]

    before = lag()
    cli("produce", read_topic, "--partition", "0", stdin=b"a\nb\n")
    assert (before, lag()) == (3, 5)


def test_a_description_in_a_pipe_is_lines_with_tabs(cli: Cli, read_topic: str, group: str) -> None:
    lines = [line.split("\t") for line in cli("group", "describe", group).lines]
    facts = {line[0]: line[1] for line in lines if len(line) == 2}
    assert (facts["group"], facts["state"], facts["lag"]) == (group, "Empty", "3")
    assert [line for line in lines if line[0] == "offset"] == [
        ["offset", read_topic, "0", "2", "4", "2", "-", "-"],
        ["offset", read_topic, "1", "2", "3", "1", "-", "-"],
    ]


def test_members_and_offsets_can_be_seen_alone(cli: Cli, active: str) -> None:
    def kinds(*options: str) -> set[str]:
        lines = [line.split("\t")[0] for line in cli("group", "describe", f"classic-{active}", *options).lines]
        return {kind for kind in lines if kind in ("member", "offset")}

    assert kinds() == kinds("--members", "--offsets") == {"member", "offset"}
    assert kinds("--members") == {"member"}
    assert kinds("--offsets") == {"offset"}
    assert "members" not in cli("group", "describe", f"classic-{active}", "--offsets", "--json").json[0]


def test_all_groups_are_described_when_requested(cli: Cli, active: str, group: str) -> None:
    described = {one["groupId"] for one in cli("group", "describe", "--all", "--json").json}
    assert {f"classic-{active}", f"consumer-{active}", group} <= described
    assert "name groups, or give --all" in cli("group", "describe", fails=2).stderr


def test_a_missing_group_is_reported_with_similar_names(cli: Cli, group: str) -> None:
    wrong = group[:-1]
    for command in (
        ["describe"],
        ["delete"],
        ["delete-offsets", "--all-topics", "--yes"],
        ["reset-offsets", "--all-topics", "--to", "1"],
    ):
        done = cli("group", *command, wrong, fails=1)
        assert done.stderr.startswith(f"cordwood: there is no group {wrong} (did you mean ")
        assert group in done.stderr
    assert cli("group", "describe", f"{group}-*", fails=1).stderr == f"cordwood: no group matches '{group}-*'\n"


# ---- reset-offsets


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to", "earliest"], {0: 0, 1: 0}),
        (["--to", "latest"], {0: 4, 1: 3}),
        (["--to", "1"], {0: 1, 1: 1}),
        (["--to", "-1"], {0: 3, 1: 2}),
        (["--to", f"@{FIRST_MS + STEP_MS}"], {0: 1, 1: 1}),
        (["--to", "@2023-11-14T22:13:23Z"], {0: 3, 1: 3}),
        (["--to", "@2023-11-14T23:13:23+01:00"], {0: 3, 1: 3}),
        (["--by-duration", "1h"], {0: 4, 1: 3}),
        (["--by-duration", "P99999D"], {0: 0, 1: 0}),
        (["--shift-by", "1"], {0: 3, 1: 3}),
        (["--shift-by", "-2"], {0: 0, 1: 0}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_offsets_are_reset_to(cli: Cli, group: str, options: list[str], expected: dict[int, int]) -> None:
    cli("group", "reset-offsets", group, "--all-topics", *options)
    assert committed(cli, group) == expected


def test_the_plan_shows_sources_and_destinations(cli: Cli, read_topic: str, group: str) -> None:
    done = cli("group", "reset-offsets", group, "--topic", read_topic, "--to", "latest", "--dry-run")
    assert done.lines == [f"{read_topic}\t0\t2\t4", f"{read_topic}\t1\t2\t3", f"{read_topic}\t2\t-\t0"]
    as_json = cli("group", "reset-offsets", group, "--topic", f"{read_topic}:1", "--to", "0", "--json").json
    assert as_json == [{"topic": read_topic, "partition": 1, "from": 2, "to": 0}]


def test_a_dry_run_resets_nothing(cli: Cli, group: str) -> None:
    cli("group", "reset-offsets", group, "--all-topics", "--to", "earliest", "--dry-run")
    assert committed(cli, group) == {0: 2, 1: 2}


def test_only_the_partitions_that_are_named_are_reset(cli: Cli, read_topic: str, group: str) -> None:
    cli("group", "reset-offsets", group, "--topic", f"{read_topic}:1,2", "--to", "earliest")
    assert committed(cli, group) == {0: 2, 1: 0, 2: 0}


def test_an_offset_beyond_a_partition_is_cut_to_it_with_a_warning(cli: Cli, read_topic: str, group: str) -> None:
    done = cli("group", "reset-offsets", group, "--topic", read_topic, "--to", "4")
    assert done.stderr.splitlines() == [
        f"cordwood: {read_topic}-1 has no offset 4; it begins at 0 and ends at 3: 3 is taken",
        f"cordwood: {read_topic}-2 has no offset 4; it begins at 0 and ends at 0: 0 is taken",
    ]
    assert committed(cli, group) == {0: 4, 1: 3, 2: 0}
    cli("group", "reset-offsets", group, "--topic", read_topic, "--shift-by", "-99")
    assert committed(cli, group) == {0: 0, 1: 0, 2: 0}


def test_offsets_are_reset_from_a_file(cli: Cli, read_topic: str, group: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{read_topic},0,1\n{read_topic},2,0\n")
    cli("group", "reset-offsets", group, "--from-file", str(file))
    assert committed(cli, group) == {0: 1, 1: 2, 2: 0}
    cli("group", "reset-offsets", group, "--from-file", "-", stdin=f'"{read_topic}",0,3\n'.encode())
    assert committed(cli, group)[0] == 3


def test_a_line_of_a_file_that_says_no_offset_is_named(cli: Cli, group: str) -> None:
    def refusal(content: bytes) -> str:
        return cli("group", "reset-offsets", group, "--from-file", "-", stdin=content, fails=2).stderr

    assert "-: line 2: 'orders,0' is not TOPIC,PARTITION,OFFSET" in refusal(b"orders,0,1\norders,0\n")
    assert "no lines of TOPIC,PARTITION,OFFSET" in refusal(b"\n")
    assert (
        "cannot read nowhere.csv" in cli("group", "reset-offsets", group, "--from-file", "nowhere.csv", fails=2).stderr
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_not_reset(cli: Cli, active: str, protocol: str) -> None:
    group = f"{protocol}-{active}"
    done = cli("group", "reset-offsets", group, "--topic", active, "--to", "latest", fails=1)
    assert done.stderr == (
        f"cordwood: group {group} is Stable with 1 member: its offsets can be reset only without active members\n"
    )
    assert done.lines == []


def test_a_group_continues_from_the_reset_offsets(cli: Cli, bootstrap: str, read_topic: str, group: str) -> None:
    cli("group", "reset-offsets", group, "--topic", f"{read_topic}:0", "--to", "3")
    cli("group", "reset-offsets", group, "--topic", f"{read_topic}:1", "--to", "latest")
    with member(bootstrap, group, read_topic) as consumer:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert (message.partition(), message.offset()) == (0, 3)


def test_a_group_comes_into_being_only_when_that_is_meant(cli: Cli, read_topic: str) -> None:
    name = f"new-{read_topic}"
    command = ["group", "reset-offsets", name, "--topic", read_topic, "--to", "latest"]
    assert f"there is no group {name}" in cli(*command, fails=1).stderr
    cli(*command, "--create")
    assert committed(cli, name) == dict(enumerate(COUNTS))


def test_shift_by_needs_a_committed_offset(cli: Cli, read_topic: str, group: str) -> None:
    done = cli("group", "reset-offsets", group, "--topic", read_topic, "--shift-by", "1", fails=2)
    assert f"{read_topic}-2 has no committed offset to shift from" in done.stderr
    assert committed(cli, group) == {0: 2, 1: 2}


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--all-topics"], "give one of --to, --by-duration, --shift-by and --from-file"),
        (["--all-topics", "--to", "1", "--shift-by", "1"], "give one of --to, --by-duration"),
        (["--to", "1"], "name topics, or give --all-topics"),
        (["--all-topics", "--topic", "t", "--to", "1"], "name topics, or give --all-topics"),
        (["--all-topics", "--to", "soon"], "'soon' is not a position in a partition"),
        (["--all-topics", "--to", "@soon"], "'@soon' is not a position in a partition"),
        (["--all-topics", "--by-duration", "PT"], "'PT' is not a duration"),
        (["--topic", "t:x", "--to", "1"], "'t:x' is not TOPIC or TOPIC:PARTITION,PARTITION"),
        (["--topic", "t", "--from-file", "f"], "names its topics itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_reported(cli: Cli, options: list[str], refusal: str) -> None:
    assert refusal in cli("group", "reset-offsets", "g", *options, fails=2).stderr


def test_a_missing_topic_or_partition_is_reported(cli: Cli, read_topic: str, group: str) -> None:
    def refusal(chosen: str, code: int) -> str:
        return cli("group", "reset-offsets", group, "--topic", chosen, "--to", "1", fails=code).stderr

    assert refusal(f"{read_topic}-no", 1).startswith(f"cordwood: there is no topic {read_topic}-no (did you mean ")
    assert refusal(f"{read_topic}:3", 2) == f"cordwood: topic {read_topic} has no partition 3; it has 0 to 2\n"


# ---- delete-offsets


def test_offsets_of_a_partition_are_deleted(cli: Cli, read_topic: str, group: str) -> None:
    cli("group", "delete-offsets", group, "--topic", f"{read_topic}:1", "--yes")
    assert committed(cli, group) == {0: 2}


def test_all_offsets_are_deleted_when_requested(cli: Cli, read_topic: str, group: str) -> None:
    other = f"{group}-b"
    cli("group", "reset-offsets", other, "--topic", read_topic, "--to", "0", "--create")
    cli("group", "delete-offsets", other, "--all-topics", "--yes")
    assert cli("group", "list", f"{group}*", "--state", "dead").lines == []
    assert committed(cli, group) == {0: 2, 1: 2}


def test_deleting_missing_offsets_is_reported(cli: Cli, read_topic: str, group: str) -> None:
    for chosen in (f"{read_topic}:2", "elsewhere"):
        done = cli("group", "delete-offsets", group, "--topic", chosen, "--yes", fails=1)
        assert done.stderr == f"cordwood: group {group} has no committed offsets for {chosen}\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_subscribed_topics_are_not_deleted(cli: Cli, active: str, protocol: str) -> None:
    done = cli("group", "delete-offsets", f"{protocol}-{active}", "--topic", active, "--yes", fails=1)
    assert done.stderr == (
        f"cordwood: {active}-0: members of group {protocol}-{active} are consuming it (GROUP_SUBSCRIBED_TO_TOPIC)\n"
    )


# ---- delete


def test_groups_are_deleted_by_name_and_by_pattern(cli: Cli, read_topic: str, group: str) -> None:
    for name in (f"{group}-a", f"{group}-b"):
        cli("group", "reset-offsets", name, "--topic", read_topic, "--to", "0", "--create")
    cli("group", "delete", group, "--yes")
    assert [line.split("\t")[0] for line in cli("group", "list", f"{group}*").lines] == [f"{group}-a", f"{group}-b"]
    cli("group", "delete", f"{group}-*", "--yes")
    assert cli("group", "list", f"{group}*").lines == []
    cli("group", "delete", group, "--if-exists", "--yes")


def test_without_a_terminal_groups_and_offsets_are_deleted_only_with_yes(cli: Cli, group: str) -> None:
    done = cli("group", "delete", group, stdin=b"y\n", fails=2)
    assert done.stderr == (
        f"cordwood: this would delete 1 group: {group}; there is no terminal to confirm on: give --yes to proceed\n"
    )
    assert "give --yes" in cli("group", "delete-offsets", group, "--all-topics", fails=2).stderr
    assert committed(cli, group) == {0: 2, 1: 2}


def test_a_group_with_members_is_not_deleted_and_the_others_are(cli: Cli, active: str, group: str) -> None:
    done = cli("group", "delete", f"classic-{active}", f"consumer-{active}", group, "--yes", fails=1)
    assert done.stderr.splitlines() == [
        f"cordwood: group classic-{active} has members; stop them first (NON_EMPTY_GROUP)",
        f"cordwood: group consumer-{active} has members; stop them first (NON_EMPTY_GROUP)",
    ]
    assert cli("group", "list", group).lines == []


# ---- consume --group


def test_a_group_continues_at_its_committed_offsets(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\ntwo\nthree\n")
    name = f"g-{topic}"
    assert cli("consume", topic, "--group", name, "--count", "2").lines == ["one", "two"]
    assert committed(cli, name) == {0: 2}
    assert cli("consume", topic, "--group", name, "--format", "{offset} {value}\\n").lines == ["2 three"]
    cli("produce", topic, stdin=b"four\n")
    assert cli("consume", topic, "--group", name, "--from", "earliest").lines == ["four"]
    assert committed(cli, name) == {0: 4}


def test_an_interrupted_member_has_committed_printed_records(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    name = f"g-{topic}"
    with cli.start("consume", topic, "--group", name, "--follow") as reader:
        assert reader.read_line() == b"one\n"
        cli("produce", topic, stdin=b"two\n")
        assert reader.read_line() == b"two\n"
        assert [line.split("\t")[1] for line in cli("group", "list", name).lines] == ["Stable"]
        reader.interrupt()
        assert reader.ended() == (130, "")
    assert committed(cli, name) == {0: 2}
    assert [line.split("\t")[1] for line in cli("group", "list", name).lines] == ["Empty"]


def test_undelivered_records_are_not_committed(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"one\n")
    name = f"g-{topic}"
    with cli.start("consume", topic, "--group", name, "--follow") as reader:
        assert reader.read_line() == b"one\n"
        reader.stdout.close()
        cli("produce", topic, stdin=b"two\n")
        assert reader.ended() == (0, "")
    assert committed(cli, name) == {0: 1}


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--partition", "0"], "cannot be combined with --partition or --until"),
        (["--until", "5"], "cannot be combined with --partition or --until"),
        (["--from", "-10"], "with --group, only earliest and latest"),
    ],
)
def test_options_incompatible_with_a_group_are_refused(cli: Cli, options: list[str], refusal: str) -> None:
    assert refusal in cli("consume", "t", "--group", "g", *options, fails=2).stderr


def test_a_group_does_not_make_the_topic_that_it_reads(cli: Cli, topic: str) -> None:
    done = cli("consume", topic, "--group", f"g-{topic}", fails=1)
    assert done.stderr.startswith(f"cordwood: there is no topic {topic}")
