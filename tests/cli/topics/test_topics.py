"""`cordwood topic`, against a running cluster."""

import pytest

from tests.cli.cli_runner import Cli, until


def test_a_topic_is_created_as_requested(cli: Cli, topic: str) -> None:
    created = cli("topic", "create", topic, "-p", "3", "--set", "retention.ms=5000", "--json").json
    assert [(one["name"], one["partitions"], one["replicationFactor"]) for one in created] == [(topic, 3, 1)]
    described = cli("topic", "describe", topic, "--json").json[0]
    assert described["topicId"] == created[0]["topicId"]
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    configs = {config["name"]: config["value"] for config in described["configs"]}
    assert configs["retention.ms"] == "5000"


def test_a_created_topic_takes_records_at_once(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "4")
    cli("produce", topic, stdin=b"a\n")
    assert cli("consume", topic).lines == ["a"]


def test_several_topics_are_created_at_once(cli: Cli, topic: str) -> None:
    cli("topic", "create", f"{topic}-a", f"{topic}-b")
    assert cli("topic", "list", f"{topic}*").lines == [f"{topic}-a", f"{topic}-b"]


def test_one_that_exists_is_an_error_unless_it_may(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    done = cli("topic", "create", topic, f"{topic}-b", fails=1)
    assert done.stderr == f"cordwood: topic {topic}: Topic '{topic}' already exists (TOPIC_ALREADY_EXISTS)\n"
    assert cli("topic", "list", f"{topic}-b").lines == [f"{topic}-b"]
    cli("topic", "create", topic, "--if-not-exists")


def test_an_invalid_setting_is_reported_with_its_name(cli: Cli, topic: str) -> None:
    assert "retention.ms" in cli("topic", "create", topic, "--set", "retention.ms=soon", fails=1).stderr
    assert "no.such.setting" in cli("topic", "create", topic, "--set", "no.such.setting=1", fails=1).stderr
    assert "is not NAME=VALUE" in cli("topic", "create", topic, "--set", "retention.ms", fails=2).stderr
    assert cli("topic", "list", topic).lines == []


def test_replicas_can_be_placed_by_hand(cli: Cli, topic: str) -> None:
    (broker,) = (broker["id"] for broker in cli("cluster", "--json").json["brokers"])
    cli("topic", "create", topic, "--replicas", str(broker), "--replicas", str(broker))
    partitions = cli("topic", "describe", topic, "--json").json[0]["partitions"]
    assert [partition["replicas"] for partition in partitions] == [[broker], [broker]]
    assert "such as 1:2:3" in cli("topic", "create", topic, "--replicas", "1-2", fails=2).stderr


def test_a_topic_that_is_named_twice_is_created_once(cli: Cli, topic: str) -> None:
    assert [created["name"] for created in cli("topic", "create", topic, topic, "--json").json] == [topic]


def test_a_dry_run_creates_nothing(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "--dry-run")
    assert cli("topic", "list", topic).lines == []


def test_a_list_is_names_in_a_pipe_and_more_as_json(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "2")
    assert topic in cli("topic", "list").lines
    (listed,) = cli("topic", "list", topic, "--json").json
    assert (listed["name"], listed["partitions"], listed["replicationFactor"], listed["internal"]) == (
        topic,
        2,
        1,
        False,
    )


def test_a_description_has_the_offsets(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    cli("produce", topic, stdin=b"a\nb\nc\n")
    (partition,) = cli("topic", "describe", topic, "--json").json[0]["partitions"]
    assert (partition["startOffset"], partition["endOffset"]) == (0, 3)
    assert partition["leader"] in partition["isr"]


def test_a_description_in_a_pipe_is_lines_with_tabs(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    lines = [line.split("\t") for line in cli("topic", "describe", topic).lines]
    assert lines[0] == ["topic", topic]
    assert [line[1] for line in lines if line[0] == "partition"] == ["0"]


@pytest.mark.parametrize("command", ["describe", "delete"])
def test_a_missing_topic_is_named(cli: Cli, topic: str, command: str) -> None:
    assert f"there is no topic {topic}" in cli("topic", command, topic, fails=1).stderr
    assert cli("topic", command, f"{topic}*", fails=1).stderr == f"cordwood: no topic matches '{topic}*'\n"


def test_partitions_are_added(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    cli("topic", "alter", topic, "--partitions", "3")
    assert len(cli("topic", "describe", topic, "--json").json[0]["partitions"]) == 3


def test_partitions_are_not_taken_away(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "3")
    assert "INVALID_PARTITIONS" in cli("topic", "alter", topic, "--partitions", "2", fails=1).stderr


def test_settings_are_altered_and_taken_back(cli: Cli, topic: str) -> None:
    def value(name: str) -> str:
        (entry,) = cli("config", "describe", "topic", topic, name, "--json").json
        assert isinstance(entry["value"], str)
        return entry["value"]

    cli("topic", "create", topic)
    cli("topic", "alter", topic, "--set", "retention.ms=60000", "--set", "cleanup.policy+=compact")
    until(lambda: (value("retention.ms"), value("cleanup.policy")) == ("60000", "delete,compact"))
    cli("topic", "alter", topic, "--unset", "retention.ms", "--set", "cleanup.policy-=delete")
    until(lambda: (value("retention.ms"), value("cleanup.policy")) == ("604800000", "compact"))


def test_altering_nothing_is_an_error(cli: Cli, topic: str) -> None:
    assert "give --partitions, --set or --unset" in cli("topic", "alter", topic, fails=2).stderr


def test_topics_are_deleted_by_name_and_by_pattern(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, f"{topic}-a", f"{topic}-b")
    cli("topic", "delete", topic, "--yes")
    assert cli("topic", "list", f"{topic}*").lines == [f"{topic}-a", f"{topic}-b"]
    cli("topic", "delete", f"{topic}-*", "--yes")
    assert cli("topic", "list", f"{topic}*").lines == []
    cli("topic", "delete", topic, "--if-exists", "--yes")


def test_without_a_terminal_topics_are_deleted_only_with_yes(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    assert "give --yes" in cli("topic", "delete", topic, stdin=b"y\n", fails=2).stderr
    assert cli("topic", "list", topic).lines == [topic]


def test_a_topic_is_described_by_its_id(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    (told,) = cli("topic", "describe", topic, "--json").json
    assert cli("topic", "describe", "--id", told["topicId"], "--json").json == [told]
    assert "a uuid is 22 characters" in cli("topic", "describe", "--id", "orders", fails=2).stderr
    assert cli("topic", "describe", "--id", "AAAAAAAAAAAAAAAAAAAAEQ", fails=1).stderr.count("\n") == 1
