"""Values are read as Kafka reads them and spelled as Java spells them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.config.definition import Definition, Definitions
from cordwood.config.definitions.broker import BROKER
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.errors import ConfigError
from cordwood.config.validation.validity import Addresses, Distinct, NonEmptyString, OffsetReset, OneOfInAnyCase, Range
from cordwood.config.validation.values import Password, Type, Value, parse, spell, spell_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (2147483647.0, "2.147483647E9"),
        (-0.05, "-0.05"),
        (-0.0, "-0.0"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_spelled_as_java_spells_them(value: float, text: str) -> None:
    assert spell_double(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_that_is_spelled_is_read_back(value: float) -> None:
    assert parse("a", spell_double(value), Type.DOUBLE) == value


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (" TRUE\t", Type.BOOLEAN, True),
        ("false", Type.BOOLEAN, False),
        ("+5", Type.INT, 5),
        (" -2147483648 ", Type.INT, -(2**31)),
        ("000000000000000000000000000007", Type.SHORT, 7),
        ("9223372036854775807", Type.LONG, 2**63 - 1),
        (".5f", Type.DOUBLE, 0.5),
        ("1e3D", Type.DOUBLE, 1000.0),
        ("0x1p-2", Type.DOUBLE, 0.25),
        (" a , b,,c ", Type.LIST, ("a", "b", "", "c")),
        ("  ", Type.LIST, ()),
        (" oak ", Type.STRING, "oak"),
        ("org.apache.Oak$Leaf", Type.CLASS, "org.apache.Oak$Leaf"),
        (" oak ", Type.PASSWORD, Password("oak")),
    ],
)
def test_a_value_is_read(text: str, kind: Type, value: Value) -> None:
    assert parse("a", text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("yes", Type.BOOLEAN, "Expected value to be either true or false"),
        ("", Type.BOOLEAN, "Expected value to be either true or false"),
        ("2147483648", Type.INT, "Not a number of type INT"),
        ("32768", Type.SHORT, "Not a number of type SHORT"),
        ("9" * 5000, Type.LONG, "Not a number of type LONG"),
        ("1_000", Type.INT, "Not a number of type INT"),
        ("1.0", Type.INT, "Not a number of type INT"),
        ("", Type.INT, "Not a number of type INT"),
        ("nan", Type.DOUBLE, "Not a number of type DOUBLE"),
        ("1,5", Type.DOUBLE, "Not a number of type DOUBLE"),
        ("no class", Type.CLASS, "Class no class could not be found."),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_kafkas_words(text: str, kind: Type, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse("a.key", text, kind)
    assert refused.value.message == f"Invalid value {text} for configuration a.key: {reason}"


def test_a_secret_is_not_printed() -> None:
    assert f"{Password('oak')} {Password('oak')!r}" == "[hidden] [hidden]"
    assert spell(Password("oak")) == "oak"


def everything() -> list[Definition]:
    tables: tuple[Definitions, ...] = (BROKER, TOPIC, GROUP, CLIENT_METRICS)
    return [definition for table in tables for definition in table.values()]


@pytest.mark.parametrize("definition", everything(), ids=lambda definition: definition.name)
def test_every_default_is_a_value_that_may_be_set(definition: Definition) -> None:
    if definition.default is None:
        return
    text = definition.default_spelling
    assert text is not None
    assert definition.read(text) == definition.default


def refused(rule: Range | Distinct | Addresses | OffsetReset | OneOfInAnyCase | NonEmptyString, value: Value) -> bool:
    try:
        rule.check("a", value)
    except ConfigError:
        return True
    return False


def test_a_range_has_its_ends() -> None:
    assert [refused(Range(1, 9), value) for value in (0, 1, 9, 10)] == [True, False, False, True]
    assert [refused(Range(1, 9, also=-1), value) for value in (-1, 0, 1, 10)] == [False, True, False, True]
    assert refused(Range(0), None)


def test_a_lists_entries_are_checked() -> None:
    rule = Distinct(("compact", "delete"), may_be_empty=False)
    assert not refused(rule, ("delete", "compact"))
    assert refused(rule, ())
    assert refused(rule, ("delete", ""))
    assert refused(rule, ("shred",))
    assert refused(rule, None)
    assert not refused(Distinct(may_be_null=True), None)


def test_addresses_have_a_host_and_a_port() -> None:
    assert not refused(Addresses(), ("localhost:9093", "[::1]:9093"))
    assert not refused(Addresses(with_ids=True), ("1@localhost:9093",))
    for bad in ("localhost", "localhost:", ":9093", "localhost:99999", "1@localhost:9093", "::1:9093"):
        assert refused(Addresses(), (bad,)), bad
    assert refused(Addresses(with_ids=True), ("localhost:9093",))


def test_a_share_group_starts_at_an_end_or_some_time_ago() -> None:
    rule = OffsetReset(("latest", "earliest"))
    for good in ("latest", "earliest", "by_duration:P1D", "by_duration:PT1H30M", "by_duration:PT0.5S"):
        assert not refused(rule, good), good
    for bad in ("", "LATEST", "by_duration", "by_duration:", "by_duration:P", "by_duration:P1DT", "by_duration:1h"):
        assert refused(rule, bad), bad


def test_words_in_any_case() -> None:
    assert not refused(OneOfInAnyCase(("UPGRADE",)), "Upgrade")
    assert refused(OneOfInAnyCase(("UPGRADE",)), "up")


def test_text_that_must_not_be_empty_may_be_absent() -> None:
    assert refused(NonEmptyString(), "")
    assert not refused(NonEmptyString(), None)
