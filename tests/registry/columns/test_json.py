"""JSON to columns: what Python's own parser reads is what comes out, as far as the schema has a type for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.schema import Schema
from tests.registry.columns_room import COMPILED, INTERPRETED, ColumnsRoom, framed, in_each_room


def parsed(schema: Any) -> Schema:
    return parse_schema("JSON", json.dumps(schema))


SCHEMA = parsed(
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "whole": {"type": "integer"},
            "number": {"type": "number"},
            "yes": {"type": "boolean"},
            "maybe": {"type": ["null", "string"]},
            "list": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
            "inner": {"type": "object", "properties": {"ü": {"type": "string"}}},
            "any": True,
        },
    }
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60).map(float)
ANY = st.recursive(
    st.booleans() | WHOLE | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "text": nullable(TEXTS),
        "whole": nullable(WHOLE),
        "number": nullable(NUMBERS),
        "yes": nullable(st.booleans()),
        "maybe": nullable(TEXTS),
        "list": nullable(st.lists(nullable(st.lists(nullable(WHOLE), max_size=3)), max_size=3)),
        "map": nullable(st.dictionaries(TEXTS, nullable(NUMBERS), max_size=3)),
        "inner": nullable(st.fixed_dictionaries({}, optional={"ü": nullable(TEXTS), "other": ANY})),
        "any": nullable(ANY),
        "unknown": ANY,
    },
)
NAMES = ("text", "whole", "number", "yes", "maybe", "list", "map", "inner", "any")


def expected(value: dict[str, Any], text: dict[str, str]) -> dict[str, Any]:
    row = {name: value.get(name) for name in NAMES}
    if row["map"] is not None:
        row["map"] = list(row["map"].items())
    if row["inner"] is not None:
        row["inner"] = {"ü": row["inner"].get("ü")}
    row["any"] = None if row["any"] is None else text["any"]
    return row


WRITTEN = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"ensure_ascii": False},
        {"indent": 2},
        {"separators": (" ,\t", " :\r\n")},
    ]
)


@in_each_room
@settings(max_examples=200, deadline=None)
@given(st.lists(OBJECTS, max_size=4), WRITTEN, st.randoms())
def test_data_of_pythons_json_is_read(room: ColumnsRoom, values: list[Any], how: Any, chance: Any) -> None:
    shuffled = [dict(chance.sample(list(value.items()), len(value))) for value in values]
    rows, bad = room.decode(SCHEMA, [framed(json.dumps(value, **how).encode()) for value in shuffled])
    assert bad == []
    for row, value in zip(rows, values, strict=True):
        found = None if row["any"] is None else json.loads(row["any"])
        assert found == value.get("any")
        assert row == expected(value, {"any": row["any"]})


@settings(max_examples=300, deadline=None)
@given(OBJECTS, st.data())
def test_damaged_texts_cost_only_their_own_rows_in_each_room(value: Any, data: st.DataObject) -> None:
    damaged = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    good = framed(json.dumps(value).encode())
    values = [good, framed(bytes(damaged)), good]
    rows, bad = COMPILED.decode(SCHEMA, values)
    assert repr(rows[0]) == repr(rows[2])
    assert rows[0] is not None
    assert {row for row, _ in bad} <= {1}
    assert repr(INTERPRETED.decode(SCHEMA, values)) == repr((rows, bad))
    if not bad:
        assert isinstance(json.loads(damaged.decode()), dict | None)


@in_each_room
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "the JSON text ends too early"),
        (b"[]", "an array where an object is expected"),
        (b'{"text":1}', "at text: a number where a string is expected"),
        (b'{"whole":1.5}', "at whole: 1.5 is not a whole number"),
        (b'{"whole":9223372036854775808}', "at whole: 9223372036854775808 is out of range"),
        (b'{"whole":01}', "at whole: a number begins with 0"),
        (b'{"number":1.}', "at number: a number ends with a point"),
        (b'{"number":1e}', "at number: a number has no exponent"),
        (b'{"yes":tru}', "at yes: a word is not of JSON"),
        (b'{"text":"a\nb"}', "at text: a string has a control character"),
        (b'{"text":"\\x"}', "at text: a string has an escape that is not of JSON"),
        (b'{"text":"\xff"}', "a string is not UTF-8"),
        (b'{"text":"a","text":"b"}', "at text: a field comes twice"),
        (b'{"list":[[1],["x"]]}', "at list: a string where a number is expected"),
        (b'{"inner":{"\xc3\xbc":{}}}', "at inner.ü: an object where a string is expected"),
        (b'{"any":[1,}', "at any: '}' where a number is expected"),
        (b'{"text":"a" "whole":1}', "at text: a comma is missing"),
        (b'{"text":"a"}{}', "something follows the JSON value"),
        (b'{"any":' + b"[" * 300 + b"]" * 300 + b"}", "at any: values are nested more than 200 levels deep"),
    ],
)
def test_errors_name_the_bad_field(room: ColumnsRoom, text: bytes, reason: str) -> None:
    assert room.decode(SCHEMA, [framed(text)]) == ([None], [(0, reason)])


@in_each_room
def test_whole_numbers_may_be_written_in_any_way(room: ColumnsRoom) -> None:
    texts = [b"1.0", b"1e3", b"-0", b"-9223372036854775808", b"9223372036854775807"]
    rows, bad = room.decode(SCHEMA, [framed(b'{"whole":' + text + b"}") for text in texts])
    assert bad == []
    assert [row["whole"] for row in rows] == [1, 1000, 0, -(2**63), 2**63 - 1]


@in_each_room
def test_the_number_is_the_nearest_to_its_text(room: ColumnsRoom) -> None:
    texts = ["0.1", "123456789.012345", "1e-320", "-0.0", "5e-324", "0.30000000000000004", "9007199254740993", "1E5"]
    rows, _ = room.decode(SCHEMA, [framed(b'{"number":' + text.encode() + b"}") for text in texts])
    assert [repr(row["number"]) for row in rows] == [repr(float(text)) for text in texts]


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"type": "string"}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"const": 1}, "int64"),
        ({"type": "string", "enum": ["a"]}, "string"),
        ({"enum": ["a", 1]}, "string"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "int64"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "double"),
        ({"type": ["integer", "string"]}, "string"),
        ({"type": "array"}, "string"),
        ({"type": "array", "items": {"type": "boolean"}}, "list<element: bool>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map<string, string>"),
        (
            {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}},
                    {"type": "object", "properties": {"b": {"type": "number"}}},
                ]
            },
            "struct<a: int64, b: double>",
        ),
        (
            {"$ref": "#/definitions/x", "definitions": {"x": {"properties": {"a": {"type": "string"}}}}},
            "struct<a: string>",
        ),
        ({"properties": {"self": {"$ref": "#"}, "n": {"type": "integer"}}}, "struct<self: string, n: int64>"),
    ],
)
def test_schemas_have_their_types(schema: Any, type_: str) -> None:
    assert str(COMPILED.plan_for(parsed(schema)).type.type) == type_
