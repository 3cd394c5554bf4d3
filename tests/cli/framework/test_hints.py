"""Names that are nearly right lead to the right ones; internal names stay out of the way."""

import re
import uuid

import pytest

from cordwood.cli.framework.hints import nearest_setting, setting_names
from cordwood.client.admin.configs import ConfigResourceType
from cordwood.spark.sink.names import DEFAULT_LEDGER_TOPIC, TRANSACTIONAL_ID_PREFIX
from tests.cli.cli_runner import Cli, run_here, until


@pytest.fixture
def orders(cli: Cli) -> str:
    name = f"orders-{uuid.uuid4().hex}"
    cli("topic", "create", name)
    return name


# ---- topics


@pytest.mark.parametrize(
    "arguments",
    [
        ["consume", "{}"],
        ["consume", "{}", "--group", "g"],
        ["topic", "describe", "{}"],
        ["topic", "alter", "{}", "--partitions", "2"],
        ["topic", "delete", "{}", "--yes"],
        ["config", "describe", "topic", "{}"],
        ["config", "set", "topic", "{}", "retention.ms=1"],
        ["txn", "producers", "{}:0"],
        ["group", "reset-offsets", "g", "--create", "--topic", "{}", "--to", "earliest"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_missing_topic_is_reported_with_a_similar_name(cli: Cli, orders: str, arguments: list[str]) -> None:
    wrong = orders.replace("orders", "oders")
    done = cli(*[word.format(wrong) for word in arguments], fails=1)
    assert done.stderr.startswith(f"cordwood: there is no topic {wrong} (did you mean {orders}")


def test_the_producers_error_mentions_create(cli: Cli, orders: str) -> None:
    wrong = orders.replace("orders", "oders")
    told = cli("produce", wrong, stdin=b"x", fails=1).stderr
    assert told.startswith(f"cordwood: there is no topic {wrong} (did you mean {orders}")
    assert told.endswith(" use --create to create it)\n")


# ---- settings


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create", "{}-2", "--set", "retenton.ms=1"],
        ["topic", "alter", "{}", "--set", "retenton.ms=1"],
        ["config", "set", "topic", "{}", "retenton.ms=1"],
    ],
)
def test_an_unknown_topic_setting_is_reported_with_the_nearest(cli: Cli, orders: str, arguments: list[str]) -> None:
    told = cli(*[word.format(orders) for word in arguments], fails=1).stderr
    assert told.endswith("Unknown topic config name: retenton.ms (INVALID_CONFIG); did you mean retention.ms?\n")


def test_describing_an_unknown_setting_names_the_nearest(cli: Cli, orders: str) -> None:
    told = cli("config", "describe", "topic", orders, "retenton.ms", fails=2).stderr
    assert "has no setting 'retenton.ms'; did you mean retention.ms?" in told


def test_describing_an_unknown_setting_of_all_brokers_is_an_error(cli: Cli) -> None:
    told = cli("config", "describe", "broker-default", "log.retenton.ms", fails=2).stderr
    assert "has no setting 'log.retenton.ms'; did you mean log.retention.ms?" in told
    assert cli("config", "describe", "broker-default", "log.retention.ms").lines == []


@pytest.mark.parametrize(
    "arguments", [["config", "unset", "topic", "{}", "retenton.ms"], ["topic", "alter", "{}", "--unset", "retenton.ms"]]
)
def test_unsetting_an_unknown_key_warns(cli: Cli, orders: str, arguments: list[str]) -> None:
    told = cli(*[word.format(orders) for word in arguments]).stderr
    assert told == "cordwood: topics have no setting retenton.ms; did you mean retention.ms?\n"
    assert cli(*[word.format(orders).replace("retenton", "retention") for word in arguments]).stderr == ""


def test_only_public_settings_are_suggested() -> None:
    assert "internal.segment.bytes" not in setting_names(ConfigResourceType.TOPIC)
    assert nearest_setting(ConfigResourceType.GROUP, "consumer.sesion.timeout.ms") == "consumer.session.timeout.ms"
    assert nearest_setting(ConfigResourceType.BROKER_LOGGER, "rot") is None


# ---- commands and values


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["config", "get", "topic", "t"], "'describe'"),
        (["config", "alter", "topic", "t"], "'set'"),
        (["config", "delete", "topic", "t"], "'unset'"),
        (["group", "reset", "g"], "'reset-offsets'"),
        (["group", "show", "g"], "'describe'"),
        (["topic", "ls"], "'list'"),
        (["topic", "rm", "t"], "'delete'"),
        (["topic", "creat", "t"], "'create'"),
        (["log", "verify", "d"], "'dump'"),
        (["start"], "'up'"),
        (["tail", "t"], "'consume'"),
        (["transactions"], "'txn'"),
        (["version"], "'--version'"),
    ],
)
def test_a_verb_that_is_called_otherwise_here_leads_to_the_right_one(arguments: list[str], meant: str) -> None:
    done = run_here(arguments)
    assert done.code == 2
    assert f"Did you mean {meant}? (see cordwood" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["topic", "create", "t", "--partitions", "many"], "'many' "),
        (["topic", "create", "t", "--partitions", "0"], "'0' "),
        (["consume", "t", "--count", "1.5"], "'1.5' "),
        (["consume", "t", "-p", "0", "-p", "x"], "'x' "),
        (["consume", "t", "--timeout", "soon"], "'soon' "),
        (["up", "--port", "http"], "'http' "),
    ],
)
def test_an_invalid_number_is_quoted(arguments: list[str], value: str) -> None:
    done = run_here(arguments)
    assert done.code == 2
    assert value in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_argument_is_reported_on_one_line() -> None:
    done = run_here(["config", "describe"])
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "Missing argument 'KIND'" in done.stderr


@pytest.mark.parametrize("command", [["--help"], ["topic", "--help"], ["topic", "create", "--help"], ["up", "--help"]])
def test_help_shows_no_type_for_flags_and_arguments(command: list[str]) -> None:
    shown = run_here(command).stdout.decode()
    assert "--help" in shown
    assert "bool" not in shown.lower()
    assert "list[" not in shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["topic", "create"], r"--partitions +-p +N "),
        (["consume"], r"--partition +-p +N "),
        (["produce"], r"--key +-k +KEY "),
        (["up"], r"--log-format +text\|json "),
        (["scram", "set"], r"--password-file +FILE "),
        (["acl", "add"], r"--principal +PRINCIPAL "),
    ],
)
def test_help_names_the_value_of_an_option_and_not_its_python_type(command: list[str], shown: str) -> None:
    text = run_here([*command, "--help"]).stdout.decode()
    assert re.search(shown, text), text
    assert not re.search(r"<(int|str|list|float)|\[x[<>]", text)


# ---- internal names


def test_internal_topics_are_hidden_unless_requested(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"x\n")
    cli("consume", topic, "--group", topic)
    cli("topic", "create", DEFAULT_LEDGER_TOPIC, "--if-not-exists")
    own = {"__consumer_offsets", DEFAULT_LEDGER_TOPIC}
    until(lambda: own <= set(cli("topic", "list", "--internal").lines))
    assert not own & set(cli("topic", "list").lines)
    assert cli("topic", "list", DEFAULT_LEDGER_TOPIC).lines == [DEFAULT_LEDGER_TOPIC]
    assert {listed["internal"] for listed in cli("topic", "list", *own, "--json").json} == {True}


def test_a_pattern_neither_deletes_nor_alters_internal_topics(cli: Cli) -> None:
    cli("topic", "create", DEFAULT_LEDGER_TOPIC, "--if-not-exists")
    refusal = "cordwood: no topic matches '__cordwood*' (internal topics must be named in full)\n"
    assert cli("topic", "delete", "__cordwood*", "--yes", fails=1).stderr == refusal
    assert cli("topic", "alter", "__cordwood*", "--partitions", "9", fails=1).stderr == refusal
    assert cli("topic", "list", DEFAULT_LEDGER_TOPIC).lines == [DEFAULT_LEDGER_TOPIC]


def test_transactional_ids_of_the_spark_sink_are_hidden_unless_requested(cli: Cli, topic: str) -> None:
    from confluent_kafka import Producer

    ids = [f"{TRANSACTIONAL_ID_PREFIX}{topic}/ledger", f"etl-{topic}"]
    for transactional_id in ids:
        Producer({"bootstrap.servers": cli.bootstrap, "transactional.id": transactional_id}).init_transactions()

    def listed(*arguments: str) -> set[str]:
        return {line.split("\t")[0] for line in cli("txn", "list", *arguments).lines} & set(ids)

    assert listed() == {ids[1]}
    assert listed("--internal") == set(ids)
    assert listed(f"{TRANSACTIONAL_ID_PREFIX}*") == {ids[0]}
