"""AlterConfigs and IncrementalAlterConfigs, against what Kafka 4.3.1 answered to the same changes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cordwood.config.definition import ResourceType
from cordwood.config.requests.alter import REPEATED, alter_incrementally, repeated, replace_settings
from cordwood.config.requests.changes import Altered, Change, Operation, Resource
from cordwood.config.requests.loggers import check_logger_changes
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.config.kafka_broker import answering_broker, answers, broker, told

OPERATIONS = {operation.name: int(operation) for operation in Operation} | {"BAD": 7}
TOPIC, GROUP = Resource(ResourceType.TOPIC, "t"), Resource(ResourceType.GROUP, "g")
BROKER, ALL_BROKERS = Resource(ResourceType.BROKER, "1"), Resource(ResourceType.BROKER, "")

# Settings that Kafka accepts and we refuse, or that Kafka fails on and we explain.
OURS = {
    ("BAD", "a"): (ErrorCode.INVALID_REQUEST, "Unknown operations type 7"),
    ("BAD", "root"): (ErrorCode.INVALID_REQUEST, "Unknown operation 7 is not allowed for the BROKER_LOGGER resource"),
    ("SET", "min.cleanable.dirty.ratio"): (
        ErrorCode.INVALID_CONFIG,
        "Invalid value NaN for configuration min.cleanable.dirty.ratio: Value must be at least 0",
    ),
    ("SET", "log.flush.interval.ms"): (
        ErrorCode.INVALID_REQUEST,
        "log.flush.interval.ms must be greater than or equal to 0",
    ),
    ("SET", "log.cleaner.threads"): (ErrorCode.INVALID_REQUEST, "Log cleaner threads should be at least 1"),
    ("SET", "max.connections.per.ip.overrides"): (
        ErrorCode.INVALID_REQUEST,
        "Error parsing configuration property 'max.connections.per.ip.overrides': ",
    ),
    # Two wrong values: Kafka names the one that its map has first.
    ("SET", "log.cleaner.io.buffer.load.factor"): (
        ErrorCode.INVALID_REQUEST,
        "Invalid value x for configuration log.cleaner.io.buffer.load.factor: Not a number of type DOUBLE",
    ),
    # Kafka opens and closes listeners while it runs.
    ("SET", "listeners"): (ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [listeners]"),
    ("SET", "listener.security.protocol.map"): (
        ErrorCode.INVALID_REQUEST,
        "Cannot update these configs dynamically: [listener.security.protocol.map]",
    ),
}
# Whether a topic is there and its name is right is asked before; there are no Java classes to load.
NOT_DECIDED_HERE = {"nope", "bad name!", "no.such.Class"}


def tried() -> list[Any]:
    return [
        pytest.param(case, id=f"{number}-{case['request']}-{case['type']}-{case['changes']}"[:100])
        for number, case in enumerate(answers()["altered"])
        if case["name"] not in NOT_DECIDED_HERE and not any(NOT_DECIDED_HERE & set(c) for c in case["changes"])
    ]


def decide(case: dict[str, Any]) -> Altered | Refusal:
    resource = Resource(case["type"], case["name"])
    config = answering_broker()
    current = config.dynamic_default if resource == ALL_BROKERS else {}
    if case["request"] == "replace":
        pairs = [(name, value) for name, value in case["changes"]]
        return replace_settings(config, resource, current, pairs, elr_enabled=True)
    changes = [Change(name, OPERATIONS[operation], value) for operation, name, value in case["changes"]]
    if resource.type == ResourceType.BROKER_LOGGER:
        loggers = {"root", "kafka.server.BrokerServer"}
        return check_logger_changes(config.node_id, resource.name, changes, loggers) or Altered({}, ())
    return alter_incrementally(config, resource, current, changes, elr_enabled=True)


@pytest.mark.parametrize("case", tried())
def test_a_change_is_answered_as_kafka_answers_it(case: dict[str, Any]) -> None:
    answer = decide(case)
    expected = (ErrorCode[case["error"]], without_java(case["message"]))
    got = (answer.error, str(answer)) if isinstance(answer, Refusal) else (ErrorCode.NONE, None)
    if is_unknown_key_of_a_broker(case):
        assert got == (ErrorCode.INVALID_CONFIG, "Unknown config name: no.such.key")
        return
    if got != expected:
        code, message = OURS[case["changes"][0][0], case["changes"][0][1]]
        assert got[0] is code
        assert (got[1] or "").startswith(message)


def is_unknown_key_of_a_broker(case: dict[str, Any]) -> bool:
    changes = case["changes"]
    setting = ["SET", "no.such.key", "1"] if case["request"] == "incremental" else ["no.such.key", "1"]
    return bool(case["type"] == ResourceType.BROKER and changes == [setting])


def without_java(message: str | None) -> str | None:
    if message is None:
        return None
    wrapped = re.fullmatch(
        r"Invalid value \S+ConfigException: (.*) for configuration Invalid dynamic configuration", message
    )
    message = wrapped[1] if wrapped else message.removeprefix("requirement failed: ")
    # A set's order is its hash's.
    return message.replace("[node.id, log.dirs]", "[log.dirs, node.id]")


def change(operation: Operation, name: str, value: str | None) -> Change:
    return Change(name, operation, value)


def reason_of(answer: Altered | Refusal) -> tuple[ErrorCode, str]:
    assert isinstance(answer, Refusal)
    return answer.error, str(answer)


def topic_after(current: dict[str, str], *changes: Change) -> Altered | Refusal:
    return alter_incrementally(broker(), TOPIC, current, changes)


def test_append_adds_missing_items_to_the_set_value() -> None:
    name = "leader.replication.throttled.replicas"
    answer = topic_after({name: "0:1,0:1"}, change(Operation.APPEND, name, "0:1,3:4,3:4"))
    assert answer == Altered({name: "0:1,0:1,3:4"}, ((name, "0:1,0:1,3:4"),))


def test_append_starts_from_the_default_where_nothing_was_set() -> None:
    answer = topic_after({}, change(Operation.APPEND, "cleanup.policy", "compact"))
    assert answer == Altered({"cleanup.policy": "delete,compact"}, (("cleanup.policy", "delete,compact"),))


def test_subtract_takes_away_one_of_each() -> None:
    name = "leader.replication.throttled.replicas"
    answer = topic_after({name: "0:1,0:1,3:4,"}, change(Operation.SUBTRACT, name, "0:1,3:4"))
    assert isinstance(answer, Altered)
    assert answer.settings == {name: "0:1"}


def test_subtracting_the_last_leaves_an_empty_list_that_is_set() -> None:
    answer = topic_after({}, change(Operation.SUBTRACT, "cleanup.policy", "delete"))
    assert answer == Altered({"cleanup.policy": ""}, (("cleanup.policy", ""),))


def test_delete_removes_a_setting() -> None:
    answer = topic_after({"retention.ms": "5", "segment.ms": "7"}, change(Operation.DELETE, "retention.ms", None))
    assert answer == Altered({"segment.ms": "7"}, (("retention.ms", None),))


def test_setting_a_topic_to_its_current_value_is_not_recorded() -> None:
    answer = topic_after({"retention.ms": "5"}, change(Operation.SET, "retention.ms", "5"))
    assert answer == Altered({"retention.ms": "5"}, ())


def test_setting_a_broker_to_its_current_value_is_recorded_again() -> None:
    changes = [change(Operation.SET, "log.retention.ms", "5")]
    answer = alter_incrementally(broker(), BROKER, {"log.retention.ms": "5"}, changes)
    assert answer == Altered({"log.retention.ms": "5"}, (("log.retention.ms", "5"),))


def test_one_bad_change_refuses_them_all() -> None:
    answer = topic_after({}, change(Operation.SET, "retention.ms", "5"), change(Operation.SET, "segment.ms", "x"))
    assert reason_of(answer) == (
        ErrorCode.INVALID_CONFIG,
        "Invalid value x for configuration segment.ms: Not a number of type LONG",
    )


def test_replacing_removes_settings_that_are_not_named() -> None:
    answer = replace_settings(broker(), TOPIC, {"retention.ms": "5", "segment.ms": "7"}, [("retention.ms", "6")])
    assert answer == Altered({"retention.ms": "6"}, (("retention.ms", "6"), ("segment.ms", None)))


def test_a_brokers_unknown_key_is_refused_with_the_nearest() -> None:
    answer = alter_incrementally(broker(), ALL_BROKERS, {}, [change(Operation.SET, "log.retention.mss", "5")])
    assert reason_of(answer) == (
        ErrorCode.INVALID_CONFIG,
        "Unknown config name: log.retention.mss; did you mean log.retention.ms?",
    )


def test_invalid_stored_settings_do_not_block() -> None:
    current = {"num.io.threads": "many", "plugin.key": "5"}
    answer = alter_incrementally(broker(), BROKER, current, [change(Operation.SET, "log.retention.ms", "5")])
    assert isinstance(answer, Altered)
    assert answer.settings == {**current, "log.retention.ms": "5"}


def test_a_cluster_wide_change_is_checked_against_this_brokers_settings() -> None:
    config = broker().with_dynamic({}, {"log.cleaner.threads": "2"})
    changes = [change(Operation.SET, "log.cleaner.dedupe.buffer.size", "2000000")]
    assert reason_of(alter_incrementally(config, ALL_BROKERS, {}, changes)) == (
        ErrorCode.INVALID_REQUEST,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def test_a_groups_limits_are_the_brokers() -> None:
    config = told({"group.consumer.max.session.timeout.ms": "90000"})
    changes = [change(Operation.SET, "consumer.session.timeout.ms", "70000")]
    assert isinstance(alter_incrementally(config, GROUP, {}, changes), Altered)


def test_without_eligible_leaders_min_insync_replicas_is_a_key_like_others() -> None:
    changes = [change(Operation.SET, "min.insync.replicas", "2")]
    assert isinstance(alter_incrementally(broker(), BROKER, {}, changes), Altered)


def test_a_resource_may_appear_in_a_request_once() -> None:
    assert repeated([TOPIC, GROUP, TOPIC]) == {TOPIC}
    assert str(REPEATED) == "Each resource must appear at most once."


@pytest.mark.parametrize(
    ("appended", "policy"), [("compact,", "delete,compact"), (",", "delete"), ("delete,,", "delete")]
)
def test_commas_at_the_end_add_nothing(appended: str, policy: str) -> None:
    answer = topic_after({}, change(Operation.APPEND, "cleanup.policy", appended))
    assert isinstance(answer, Altered)
    assert answer.settings == {"cleanup.policy": policy}


@pytest.mark.parametrize("name", ["num.io.threads", "log.cleaner.threads"])
def test_threads_can_be_halved_and_doubled_at_a_time(name: str) -> None:
    config = told({name: "8"})
    held = [
        isinstance(alter_incrementally(config, BROKER, {}, [change(Operation.SET, name, str(count))]), Altered)
        for count in (3, 4, 16, 17)
    ]
    assert held == [False, True, True, False]
