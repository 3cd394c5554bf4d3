"""Compatibility of every type at every level, by tables of evolutions."""

from __future__ import annotations

import pytest

from cordwood.registry.schemas.compatibility import Level, Policy, violations
from cordwood.registry.schemas.parsing import parse_schema
from tests.registry.avro_evolutions import AVRO
from tests.registry.evolutions import Evolution, expected, found
from tests.registry.json_evolutions import JSON
from tests.registry.protobuf_evolutions import PROTOBUF

TABLES = {"AVRO": AVRO, "JSON": JSON, "PROTOBUF": PROTOBUF}
CASES = [(schema_type, evolution) for schema_type, table in TABLES.items() for evolution in table]


@pytest.mark.parametrize(("schema_type", "evolution"), CASES, ids=[f"{kind}: {case.name}" for kind, case in CASES])
def test_evolution_has_its_published_verdict_at_every_level(schema_type: str, evolution: Evolution) -> None:
    for level in Level:
        problems = found(evolution, schema_type, level)
        assert (not problems) is expected(evolution, level), (level, problems)


@pytest.mark.parametrize("schema_type", TABLES)
def test_every_type_has_at_least_80_evolutions_with_their_own_names(schema_type: str) -> None:
    names = {evolution.name for evolution in TABLES[schema_type]}
    assert len(names) == len(TABLES[schema_type]) >= 80


@pytest.mark.parametrize(("schema_type", "evolution"), CASES, ids=[f"{kind}: {case.name}" for kind, case in CASES])
def test_canonical_and_normalized_texts_parse_to_themselves(schema_type: str, evolution: Evolution) -> None:
    for text in (evolution.old, evolution.new):
        schema = parse_schema(schema_type, text)
        assert parse_schema(schema_type, schema.canonical).canonical == schema.canonical
        normal = schema.normalized()
        assert parse_schema(schema_type, normal.canonical).normalized().canonical == normal.canonical


def test_transitive_levels_examine_all_versions_and_others_at_the_latest() -> None:
    first, second, third = (
        parse_schema("AVRO", f'{{"type":"record","name":"R","fields":[{fields}]}}')
        for fields in (
            "",
            '{"name":"x","type":"int","default":1}',
            '{"name":"x","type":"int"}',
        )
    )
    assert violations(Level.BACKWARD, third, [first, second]) == []
    assert len(violations(Level.BACKWARD_TRANSITIVE, third, [first, second])) == 1
    assert violations(Level.FORWARD_TRANSITIVE, third, [first, second]) == []


def test_messages_locate_the_incompatibility() -> None:
    old = parse_schema("AVRO", '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}')
    new = parse_schema("AVRO", '{"type":"record","name":"R","fields":[{"name":"x","type":"string"}]}')
    (message,) = violations(Level.BACKWARD, new, [old])
    assert "TYPE_MISMATCH" in message
    assert "/fields/0/type" in message
    assert "in the new schema does not match with the old schema" in message


def test_schemas_of_different_types_are_incompatible() -> None:
    old, new = parse_schema("AVRO", '"int"'), parse_schema("JSON", '{"type":"integer"}')
    assert violations(Level.BACKWARD, new, [old]) == ["Incompatible because of different schema type"]
    assert violations(Level.NONE, new, [old]) == []


def test_lenient_policy_allows_added_and_removed_properties() -> None:
    old = parse_schema("JSON", '{"type":"object","properties":{}}')
    new = parse_schema("JSON", '{"type":"object","properties":{"a":{"type":"string"}}}')
    assert violations(Level.FULL, new, [old], Policy.STRICT) != []
    assert violations(Level.FULL, new, [old], Policy.LENIENT) == []
