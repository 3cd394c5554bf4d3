"""`cordwood cluster` and `cordwood config`, against a running cluster; and when there is none."""

from collections.abc import Iterator

import pytest

from tests.cli.cli_runner import Cli, until


def only_broker(cli: Cli) -> str:
    (broker,) = cli("cluster", "--json").json["brokers"]
    return str(broker["id"])


def test_a_cluster_reports_its_brokers_features_and_quorum(cli: Cli) -> None:
    told = cli("cluster", "--json").json
    host, _, port = cli.bootstrap.partition(":")
    (broker,) = told["brokers"]
    assert (broker["host"], broker["port"], broker["fenced"]) == (host, int(port), False)
    assert len(told["clusterId"]) == 22
    features = {feature["name"]: feature for feature in told["features"]}
    metadata_version = features["metadata.version"]
    assert metadata_version["minSupported"] <= metadata_version["level"] <= metadata_version["maxSupported"]
    (leader,) = told["quorum"]["replicas"]
    assert (leader["role"], leader["id"], leader["lag"]) == ("leader", told["controllerId"], 0)


def test_a_cluster_in_a_pipe_is_lines_with_tabs(cli: Cli) -> None:
    lines = [line.split("\t") for line in cli("cluster").lines]
    assert lines[0][0] == "cluster"
    assert ["broker", only_broker(cli), cli.bootstrap, "-", "no"] in lines


# ---- config


@pytest.fixture
def known_topic(cli: Cli, topic: str) -> Iterator[str]:
    cli("topic", "create", topic)
    yield topic
    cli("topic", "delete", topic, "--yes")


def values(cli: Cli, *resource: str) -> dict[str, tuple[str | None, str]]:
    entries = cli("config", "describe", *resource, "--json").json
    return {entry["name"]: (entry["value"], entry["source"]) for entry in entries}


def test_a_topics_settings_are_set_and_unset(cli: Cli, known_topic: str) -> None:
    cli("config", "set", "topic", known_topic, "retention.ms=777", "max.message.bytes=2000")
    until(lambda: "retention.ms" in values(cli, "topic", known_topic))
    changed = values(cli, "topic", known_topic)
    assert changed["retention.ms"] == ("777", "DYNAMIC_TOPIC_CONFIG")
    assert changed["max.message.bytes"] == ("2000", "DYNAMIC_TOPIC_CONFIG")
    cli("config", "unset", "topic", known_topic, "retention.ms", "max.message.bytes")
    until(lambda: "retention.ms" not in values(cli, "topic", known_topic))
    assert values(cli, "topic", known_topic, "--all")["retention.ms"] == ("604800000", "DEFAULT_CONFIG")


def test_lists_are_added_to_and_taken_from(cli: Cli, known_topic: str) -> None:
    cli("config", "set", "topic", known_topic, "cleanup.policy+=compact")
    until(lambda: values(cli, "topic", known_topic, "--all")["cleanup.policy"][0] == "delete,compact")
    cli("config", "set", "topic", known_topic, "cleanup.policy-=delete")
    until(lambda: values(cli, "topic", known_topic, "--all")["cleanup.policy"][0] == "compact")


def test_all_changes_are_made_or_none(cli: Cli, known_topic: str) -> None:
    done = cli("config", "set", "topic", known_topic, "retention.ms=1", "max.message.bytes=lots", fails=1)
    assert f"topic {known_topic}: " in done.stderr
    assert "INVALID_CONFIG" in done.stderr
    assert "retention.ms" not in values(cli, "topic", known_topic)


def test_a_dry_run_changes_nothing(cli: Cli, known_topic: str) -> None:
    cli("config", "set", "topic", known_topic, "retention.ms=1", "--dry-run")
    assert "retention.ms" not in values(cli, "topic", known_topic)


def test_named_settings_are_shown_with_their_defaults_and_meaning(cli: Cli, known_topic: str) -> None:
    (entry,) = cli("config", "describe", "topic", known_topic, "retention.ms", "--json", "--docs").json
    assert (entry["value"], entry["type"], entry["readOnly"], entry["sensitive"]) == ("604800000", "LONG", False, False)
    assert entry["documentation"].startswith("How long records are kept")
    assert cli("config", "describe", "topic", known_topic, "retention.ms").lines == [
        "retention.ms\t604800000\tDEFAULT_CONFIG"
    ]


def test_documentation_is_a_last_column_in_a_pipe(cli: Cli, known_topic: str) -> None:
    (line,) = cli("config", "describe", "topic", known_topic, "retention.ms", "--docs").lines
    name, value, source, text = line.split("\t")
    assert (name, value, source) == ("retention.ms", "604800000", "DEFAULT_CONFIG")
    assert text.startswith("How long records are kept")
    assert "7 days" in text


def test_documentation_is_shown_of_all_settings_unless_some_are_named(cli: Cli, known_topic: str) -> None:
    everything = cli("config", "describe", "topic", known_topic, "--all").lines
    assert len(cli("config", "describe", "topic", known_topic, "--docs").lines) == len(everything)


def test_a_missing_setting_is_named(cli: Cli, known_topic: str) -> None:
    assert "'retention'" in cli("config", "describe", "topic", known_topic, "retention", fails=2).stderr


def test_a_brokers_settings_are_its_own_before_the_default_of_all(cli: Cli) -> None:
    broker = only_broker(cli)
    cli("config", "set", "broker-default", "log.cleaner.threads=2")
    cli("config", "set", "broker", broker, "log.cleaner.threads=3")
    try:
        until(lambda: values(cli, "broker", broker, "--all")["log.cleaner.threads"][0] == "3")
        assert values(cli, "broker", broker)["log.cleaner.threads"] == ("3", "DYNAMIC_BROKER_CONFIG")
        assert values(cli, "broker-default")["log.cleaner.threads"] == ("2", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        (entry,) = cli("config", "describe", "broker", broker, "log.cleaner.threads", "--json").json
        assert [synonym["value"] for synonym in entry["synonyms"]] == ["3", "2", "1"]
    finally:
        cli("config", "unset", "broker", broker, "log.cleaner.threads")
        cli("config", "unset", "broker-default", "log.cleaner.threads")


def test_a_groups_settings(cli: Cli, topic: str) -> None:
    cli("config", "set", "group", topic, "consumer.session.timeout.ms=50000")
    until(lambda: "consumer.session.timeout.ms" in values(cli, "group", topic))
    assert values(cli, "group", topic)["consumer.session.timeout.ms"] == ("50000", "DYNAMIC_GROUP_CONFIG")
    assert f"group\t{topic}" in cli("config", "list", "group").lines
    cli("config", "unset", "group", topic, "consumer.session.timeout.ms")


def test_a_loggers_level(cli: Cli) -> None:
    broker = only_broker(cli)
    before = values(cli, "logger", broker, "--all")
    cli("config", "set", "logger", broker, "root=WARN")
    try:
        until(lambda: values(cli, "logger", broker, "--all")["root"][0] == "WARN")
    finally:
        cli("config", "set", "logger", broker, f"root={before['root'][0]}")


def test_an_unknown_kind_is_reported_with_the_valid_ones(cli: Cli) -> None:
    assert "broker-default" in cli("config", "describe", "topics", "x", fails=2).stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["describe", "topic"], "which topic?"),
        (["describe", "broker", "one"], "'one' is not the id of a broker"),
        (["set", "topic", "x"], "give NAME=VALUE"),
        (["set", "topic", "x", "retention.ms"], "is not NAME=VALUE"),
        (["unset", "topic", "x"], "give the names of settings"),
    ],
)
def test_missing_features_are_reported(cli: Cli, arguments: list[str], reason: str) -> None:
    assert reason in cli("config", *arguments, fails=2).stderr


def test_a_missing_broker_is_reported(cli: Cli) -> None:
    assert "broker 999" in cli("config", "describe", "broker", "999", fails=1).stderr


def test_resources_are_listed(cli: Cli, known_topic: str) -> None:
    assert {"kind": "topic", "name": known_topic} in cli("config", "list", "--json").json
    assert f"topic\t{known_topic}" in cli("config", "list", "topic").lines


# ---- unreachable brokers


@pytest.mark.parametrize(
    "command", [["topic", "list"], ["consume", "t"], ["cluster"], ["config", "list"], ["topic", "create", "t"]]
)
def test_an_unreachable_cluster_is_reported_in_one_line(command: list[str]) -> None:
    done = Cli("127.0.0.1:1")(*command, fails=3)
    reason = "cannot connect to 127.0.0.1:1: Connection refused"
    assert done.stderr == f"cordwood: {reason} (is a node running there? cordwood up starts one)\n"


def test_an_invalid_address_is_reported() -> None:
    assert "expected host:port" in Cli("localhost:http")("topic", "list", fails=2).stderr


def test_a_tls_file_that_will_not_do_is_named() -> None:
    done = Cli("127.0.0.1:1")("topic", "list", "--tls-ca", "/nowhere/ca.pem", fails=2)
    assert "/nowhere/ca.pem" in done.stderr
    assert "--tls-key needs --tls-cert" in Cli("127.0.0.1:1")("cluster", "--tls-key", "x", fails=2).stderr
