"""Settings as people write them: names, values, and what fits together."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.client.options.configuration import NoEffectWarning, read_settings, setting_names
from cordwood.client.options.foreign import NO_EFFECT, refused
from cordwood.client.options.security import Security
from cordwood.client.options.values import INT_MAX, LONG_MAX, RANGES
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings, Settings
from cordwood.runtime.network import Address

FACTS: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "tools" / "protocol" / "configs.json").read_text(encoding="utf-8")
)
KINDS: list[tuple[str, type[Settings]]] = [
    ("producer", ProducerSettings),
    ("consumer", ConsumerSettings),
    ("admin", AdminSettings),
]
# Kafka's name -> ours.
RENAMED = {"interceptor_classes": "interceptors", "partitioner_class": "partitioner"}
BOOTSTRAP = {"bootstrap_servers": "here:9092"}


def producer(options: dict[str, object] | None = None, **keywords: object) -> ProducerSettings:
    return read_settings(ProducerSettings, options, {**BOOTSTRAP, **keywords})


def consumer(options: dict[str, object] | None = None, **keywords: object) -> ConsumerSettings:
    return read_settings(ConsumerSettings, options, {**BOOTSTRAP, **keywords})


def python_name(key: str) -> str:
    return key.replace(".", "_")


# ---- names


def test_a_setting_may_be_a_keyword_or_have_kafkas_dotted_name() -> None:
    assert producer(linger_ms=7) == producer({"linger.ms": 7})


def test_a_setting_that_is_given_in_both_ways_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"linger_ms is given both as linger\.ms and as linger_ms"):
        producer({"linger.ms": 7}, linger_ms=7)


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(BadSetting, match=r"no setting liner_ms; is it linger_ms\?"):
        producer(liner_ms=7)


def test_the_nearest_name_is_spelled_as_the_unknown_one_was() -> None:
    with pytest.raises(BadSetting, match=r"no setting liner\.ms; is it linger\.ms\?"):
        producer({"liner.ms": 7})


def test_a_setting_of_another_kind_of_client_is_refused_as_such() -> None:
    with pytest.raises(BadSetting, match="group_id is a setting of a consumer"):
        producer(group_id="g")


def test_names_of_other_clients_are_refused_with_ours() -> None:
    with pytest.raises(BadSetting, match="ssl_cafile: it is ssl_truststore_location"):
        producer(ssl_cafile="ca.pem")


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_every_key_of_kafka_is_known_refused_with_a_reason_or_warned_of(part: str, kind: type[Settings]) -> None:
    known = {*setting_names(kind), *Security.__dataclass_fields__, *NO_EFFECT, *RENAMED}
    if kind is ProducerSettings:
        known |= {"compression_gzip_level", "compression_lz4_level", "compression_zstd_level"}
    names = [python_name(fact["name"]) for fact in FACTS[part]]
    assert [name for name in names if name not in known and refused(name) is None] == []


# Where we differ, because nothing else would make sense or be as fast; docs/client-configuration.md says so.
OTHER_DEFAULTS = {"client.id", "receive.buffer.bytes", "send.buffer.bytes", "ssl.keystore.type", "ssl.truststore.type"}


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_defaults_are_kafkas(part: str, kind: type[Settings]) -> None:
    fields: dict[str, Any] = {**Security.__dataclass_fields__, **kind.__dataclass_fields__}
    kafkas = {
        python_name(fact["name"]): {"all": -1}.get(str(fact["default"]), fact["default"])
        for fact in FACTS[part]
        if isinstance(fact.get("default"), bool | int | str) and fact["name"] not in OTHER_DEFAULTS
    }
    compared = kafkas.keys() & fields.keys()
    assert len(compared) > 10
    assert {name: fields[name].default for name in compared} == {name: kafkas[name] for name in compared}


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_ranges_are_kafkas_or_within_them(part: str, kind: type[Settings]) -> None:
    numbers = [fact for fact in FACTS[part] if fact["type"] in ("INT", "LONG")]
    for fact in numbers:
        if (name := python_name(fact["name"])) not in setting_names(kind):
            continue
        widest = {"INT": INT_MAX, "LONG": LONG_MAX}[fact["type"]]
        span = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](?: or -?\d+)?", fact.get("valid") or "")
        least, most = RANGES.get(name, (0, INT_MAX))
        assert span is None or least == int(span[1]), name
        assert most <= int(span[2] if span is not None and span[2] else widest), name


# ---- values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"linger.ms": "20"}, ("linger_ms", 20)),
        ({"enable.idempotence": " TRUE "}, ("enable_idempotence", True)),
        ({"acks": "all"}, ("acks", -1)),
        ({"acks": "-1"}, ("acks", -1)),
        ({"acks": 1}, ("acks", 1)),
        ({"compression.type": "lz4"}, ("compression_type", "lz4")),
        ({"compression.type": None}, ("compression_type", "none")),
        ({"compression.type": "zstd", "compression.zstd.level": "19"}, ("compression_level", 19)),
        ({"compression.type": "zstd", "compression.lz4.level": "12"}, ("compression_level", None)),
        (
            {"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
            ("key_serializer", None),
        ),
        (
            {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            ("partitioner", "round_robin"),
        ),
        ({"metadata.recovery.strategy": "NONE"}, ("metadata_recovery_strategy", "none")),
    ],
)
def test_text_is_read_as_kafka_reads_it(given: dict[str, object], expected: tuple[str, object]) -> None:
    name, value = expected
    assert getattr(producer(given), name) == value


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"linger_ms": "soon"}, "linger_ms is 'soon'; expected a whole number from 0 to"),
        ({"linger_ms": -1}, "linger_ms is -1; expected a whole number from 0 to"),
        ({"linger_ms": 1.5}, "linger_ms is 1.5; expected a whole number"),
        ({"linger_ms": True}, "linger_ms is True; expected a whole number"),
        ({"batch.size": 2**31}, "batch.size is 2147483648; expected a whole number from 0 to 2147483647"),
        ({"enable_idempotence": 1}, "enable_idempotence is 1; expected true or false"),
        ({"acks": 2}, 'acks is 2; expected 0, 1 or "all"'),
        ({"acks": True}, 'acks is True; expected 0, 1 or "all"'),
        ({"compression_type": "brotli"}, "expected one of none, gzip, snappy, lz4, zstd"),
        ({"compression_type": "gzip", "compression_level": 10}, "expected -1 to 9 for gzip"),
        ({"client_id": 5}, "client_id is 5; expected a str"),
        ({"key_serializer": "utf-8"}, "expected a callable"),
        ({"partitioner": "murmur3"}, "expected one of round_robin"),
        ({"interceptors": "com.example.Mine"}, "expected a list of objects"),
        ({"transactional_id": ""}, "expected a name of at least one character"),
        ({"max_in_flight_requests_per_connection": 0}, "expected a whole number from 1 to"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_ones(options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)):
        producer(options)


@pytest.mark.parametrize(
    "servers", ["a:1,b:2", "a:1, b:2", ["a:1", "b:2"], ("a:1", "b:2")], ids=["text", "spaces", "list", "tuple"]
)
def test_bootstrap_servers_are_text_or_a_list(servers: object) -> None:
    settings = read_settings(Settings, {"bootstrap.servers": servers}, {})
    assert settings.bootstrap_servers == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize("servers", ["", [], None])
def test_there_must_be_bootstrap_servers(servers: object) -> None:
    with pytest.raises(BadSetting, match="bootstrap"):
        read_settings(Settings, None, {} if servers is None else {"bootstrap_servers": servers})


# ---- what fits together


def test_acks_other_than_all_go_without_idempotence_as_in_kafka() -> None:
    assert not producer(acks=1).enable_idempotence
    assert not producer(retries=0).enable_idempotence


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"acks": 1, "enable_idempotence": True}, "acks is 1; expected all"),
        ({"retries": 0, "enable_idempotence": True}, "retries is 0; expected more"),
        ({"max_in_flight_requests_per_connection": 6}, "expected at most 5 with enable_idempotence"),
        ({"acks": 0, "transactional_id": "t"}, "a transactional_id needs enable_idempotence"),
        ({"enable_idempotence": False, "transactional_id": "t"}, "a transactional_id needs enable_idempotence"),
        (
            {"transactional_id": "t", "transaction_two_phase_commit_enable": True, "transaction_timeout_ms": 5},
            "two-phase transactions do not expire",
        ),
        ({"delivery_timeout_ms": 30_000}, "expected at least 30005, which is linger_ms + request_timeout_ms"),
    ],
)
def test_settings_of_a_producer_that_do_not_fit_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)):
        producer(options)


def test_six_requests_in_flight_are_allowed_without_idempotence() -> None:
    assert producer(max_in_flight_requests_per_connection=6, enable_idempotence=False)


def test_the_default_delivery_timeout_grows_with_linger_and_request_timeout() -> None:
    assert producer(request_timeout_ms=200_000).delivery_timeout_ms == 200_005


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"heartbeat_interval_ms": 45_000}, "expected less than session_timeout_ms, 45000"),
        ({"group_instance_id": "i"}, "group_instance_id needs a group_id"),
        ({"enable_auto_commit": True}, "enable_auto_commit needs a group_id"),
        ({"group_remote_assignor": "uniform"}, "cannot be set with group_protocol=classic"),
        ({"group_protocol": "consumer", "session_timeout_ms": 9}, "session_timeout_ms cannot be set with"),
        ({"group_protocol": "CONSUMER", "heartbeat_interval_ms": 9}, "heartbeat_interval_ms cannot be set with"),
        ({"group_protocol": "consumer", "partition_assignment_strategy": "range"}, "cannot be set with"),
        ({"partition_assignment_strategy": "fair"}, "partition_assignment_strategy: 'fair' is none of range"),
        ({"partition_assignment_strategy": []}, "partition_assignment_strategy is empty"),
        ({"auto_offset_reset": "smallest"}, "auto_offset_reset is 'smallest'; expected earliest"),
        ({"isolation_level": "serializable"}, "expected one of read_uncommitted, read_committed"),
    ],
)
def test_settings_of_a_consumer_that_do_not_fit_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)):
        consumer(options)


def test_without_a_group_nothing_is_committed_automatically() -> None:
    assert not consumer().enable_auto_commit
    assert consumer(group_id="g").enable_auto_commit


def test_a_reconnect_backoff_alone_is_also_the_maximum_as_in_kafka() -> None:
    assert producer(reconnect_backoff_ms=5).reconnect_backoff_max_ms == 5


# ---- what has no effect


def test_settings_without_effect_cause_a_warning_at_the_callers_line() -> None:
    def construct(**keywords: object) -> Settings:
        # As constructors do.
        return read_settings(ProducerSettings, None, {**BOOTSTRAP, **keywords})

    with pytest.warns(NoEffectWarning, match="metrics_num_samples has no effect") as warned:
        construct(metrics_num_samples=5)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("options", [{"enable_metrics_push": False}, {"client_dns_lookup": "use_all_dns_ips"}])
def test_settings_that_request_the_default_behaviour_are_accepted(options: dict[str, object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        producer(options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"security_protocol": "SASL_SSL"}, "SASL is not supported; expected PLAINTEXT or SSL"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism: SASL is not supported"),
        ({"ssl_keystore_password": "x"}, "stores are PEM files"),
        ({"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}, "all addresses of a name are tried"),
    ],
)
def test_settings_that_must_not_be_ignored_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)):
        producer(options)


# ---- TLS

PEM = "-----BEGIN CERTIFICATE-----"


def test_plaintext_has_no_tls() -> None:
    assert producer().tls is None


def test_ssl_trusts_the_systems_authorities_and_checks_names_by_default() -> None:
    tls = producer(security_protocol="ssl").tls
    assert tls is not None
    assert tls.context.check_hostname


def test_an_empty_algorithm_disables_the_check_of_the_host_name() -> None:
    tls = producer({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}).tls
    assert tls is not None
    assert not tls.context.check_hostname


def test_ssl_settings_without_ssl_are_warned_of() -> None:
    with pytest.warns(NoEffectWarning, match="ssl_truststore_location: no effect, because security_protocol"):
        producer(ssl_truststore_location="ca.pem")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ssl_truststore_type": "JKS"}, "ssl_truststore_type is JKS; expected PEM"),
        ({"ssl_truststore_location": "/no/such.pem"}, "cannot read the trusted certificate file /no/such.pem"),
        ({"ssl_truststore_location": "a", "ssl_truststore_certificates": PEM}, "not both"),
        ({"ssl_keystore_certificate_chain": PEM}, "ssl_keystore_certificate_chain needs ssl_keystore_key"),
        ({"ssl_key_password": "x"}, "ssl_key_password needs a certificate"),
        ({"ssl_enabled_protocols": "SSLv3"}, "SSLv3 is not supported"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "expected https"),
    ],
)
def test_tls_that_will_not_do_is_refused_with_the_reason(options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)):
        producer({"security_protocol": "SSL", **options})
