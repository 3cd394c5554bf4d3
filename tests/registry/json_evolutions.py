"""Evolutions of JSON Schemas, with the verdicts of Confluent's published rules."""

from __future__ import annotations

from tests.registry.evolutions import BACKWARD, BOTH, FORWARD, NEITHER, Evolution

CLOSED = ',"additionalProperties":false'


def o(properties: str = "", more: str = "") -> str:
    return f'{{"type":"object","properties":{{{properties}}}{more}}}'


def s(more: str = "") -> str:
    return f'{{"type":"string"{more}}}'


def n(more: str = "") -> str:
    return f'{{"type":"number"{more}}}'


def a(more: str = "") -> str:
    return f'{{"type":"array"{more}}}'


A = '"a":{"type":"string"}'
B = '"b":{"type":"string"}'
AB = f"{A},{B}"
_DRAFT_4 = "http://json-schema.org/draft-04/schema#"
STRING, NUMBER, INTEGER = s(), n(), '{"type":"integer"}'


def _bounds(keyword: str, make: str, low: str, high: str, *, is_upper: bool) -> list[Evolution]:
    """A bound that comes, goes, moves."""
    wide, narrow = (high, low) if is_upper else (low, high)
    free = f'{{"type":"{make}"}}'
    loose, tight = (f'{{"type":"{make}","{keyword}":{value}}}' for value in (wide, narrow))
    return [
        Evolution(f"{keyword} is added", free, loose, FORWARD),
        Evolution(f"{keyword} is removed", loose, free, BACKWARD),
        Evolution(f"{keyword} is loosened", tight, loose, BACKWARD),
        Evolution(f"{keyword} is tightened", loose, tight, FORWARD),
    ]


BOUNDS = [
    *_bounds("maxLength", "string", "5", "10", is_upper=True),
    *_bounds("minLength", "string", "5", "10", is_upper=False),
    *_bounds("maximum", "number", "5", "10", is_upper=True),
    *_bounds("minimum", "number", "5", "10", is_upper=False),
    *_bounds("exclusiveMaximum", "number", "5", "10", is_upper=True),
    *_bounds("exclusiveMinimum", "number", "5", "10", is_upper=False),
    *_bounds("maxItems", "array", "5", "10", is_upper=True),
    *_bounds("minItems", "array", "5", "10", is_upper=False),
    *_bounds("maxProperties", "object", "5", "10", is_upper=True),
    *_bounds("minProperties", "object", "5", "10", is_upper=False),
]

VALUES = [
    Evolution("integer becomes number", INTEGER, NUMBER, BACKWARD),
    Evolution("number becomes integer", NUMBER, INTEGER, FORWARD),
    Evolution("string becomes number", STRING, NUMBER, NEITHER),
    Evolution("boolean becomes null", '{"type":"boolean"}', '{"type":"null"}', NEITHER),
    Evolution("a pattern is added", STRING, s(',"pattern":"^a"'), FORWARD),
    Evolution("a pattern is changed", s(',"pattern":"^a"'), s(',"pattern":"^b"'), NEITHER),
    Evolution("multipleOf is added", NUMBER, n(',"multipleOf":2'), FORWARD),
    Evolution("multipleOf is halved", n(',"multipleOf":4'), n(',"multipleOf":2'), BACKWARD),
    Evolution("multipleOf is changed", n(',"multipleOf":4'), n(',"multipleOf":6'), NEITHER),
    Evolution("an enum gets a value", s(',"enum":["a"]'), s(',"enum":["a","b"]'), BACKWARD),
    Evolution("an enum loses a value", s(',"enum":["a","b"]'), s(',"enum":["a"]'), FORWARD),
    Evolution("an enum's values change", s(',"enum":["a"]'), s(',"enum":["b"]'), NEITHER),
    Evolution("an enum's values are reordered", '{"enum":["a","b"]}', '{"enum":["b","a"]}', BOTH),
    Evolution("a const is changed", '{"const":1}', '{"const":2}', NEITHER),
    Evolution("a title is changed", s(',"title":"x"'), s(',"title":"y"'), BOTH),
    Evolution("a description is added", STRING, s(',"description":"x"'), BOTH),
    Evolution("a default is changed", s(',"default":"x"'), s(',"default":"y"'), BOTH),
    Evolution("a type becomes one of several", STRING, '{"type":["string","null"]}', BACKWARD),
    Evolution("one of several types goes", '{"type":["string","null"]}', STRING, FORWARD),
    Evolution("anything becomes a string", "{}", STRING, FORWARD),
    Evolution("a string becomes anything", STRING, "true", BACKWARD),
    Evolution("nothing becomes a string", "false", STRING, BACKWARD),
    Evolution(
        "a draft-4 exclusive bound is dropped",
        n(f',"$schema":"{_DRAFT_4}","minimum":1,"exclusiveMinimum":true'),
        NUMBER,
        BACKWARD,
    ),
]

OBJECTS = [
    Evolution("an optional property is added to an open object", o(A), o(AB), FORWARD),
    Evolution("an optional property is added to a closed object", o(A, CLOSED), o(AB, CLOSED), BACKWARD),
    Evolution("a property is removed from an open object", o(AB), o(A), BACKWARD),
    Evolution("a property is removed from a closed object", o(AB, CLOSED), o(A, CLOSED), FORWARD),
    Evolution("a property of any value is added to an open object", o(A), o(f'{A},"b":{{}}'), BOTH),
    Evolution("a required property is added to an open object", o(A), o(AB, ',"required":["b"]'), FORWARD),
    Evolution(
        "a required property is added to a closed object",
        o(A, CLOSED),
        o(AB, CLOSED + ',"required":["b"]'),
        NEITHER,
    ),
    Evolution(
        "a required property with a default is added to a closed object",
        o(A, CLOSED),
        o(A + ',"b":{"type":"string","default":""}', CLOSED + ',"required":["b"]'),
        BACKWARD,
    ),
    Evolution("a property becomes required", o(A), o(A, ',"required":["a"]'), FORWARD),
    Evolution("a property becomes optional", o(A, ',"required":["a"]'), o(A), BACKWARD),
    Evolution("a property's type is widened", o('"a":{"type":"integer"}'), o('"a":{"type":"number"}'), BACKWARD),
    Evolution("an open object is closed", o(A), o(A, CLOSED), FORWARD),
    Evolution("additional properties are restricted", o(A), o(A, ',"additionalProperties":{"type":"string"}'), FORWARD),
    Evolution(
        "a property is added that additional ones cover",
        o(A, ',"additionalProperties":{"type":"string"}'),
        o(AB, ',"additionalProperties":{"type":"string"}'),
        BOTH,
    ),
    Evolution(
        "a property is added that additional ones do not cover",
        o(A, ',"additionalProperties":{"type":"number"}'),
        o(AB, ',"additionalProperties":{"type":"number"}'),
        NEITHER,
    ),
    Evolution(
        "a property is added that a pattern covers",
        o(A, CLOSED + ',"patternProperties":{"^b":{"type":"string"}}'),
        o(AB, CLOSED + ',"patternProperties":{"^b":{"type":"string"}}'),
        BOTH,
    ),
    Evolution("a dependency is added", o(AB), o(AB, ',"dependencies":{"a":["b"]}'), FORWARD),
    Evolution("a dependency is removed", o(AB, ',"dependencies":{"a":["b"]}'), o(AB), BACKWARD),
    Evolution("an object becomes an array", o(A), a(), NEITHER),
    Evolution("properties are reordered", o(AB), o(f"{B},{A}"), BOTH),
    Evolution("a nested object gets a property", o(f'"n":{o(A)}'), o(f'"n":{o(AB)}'), FORWARD),
]

ARRAYS = [
    Evolution("items are widened", a(',"items":{"type":"integer"}'), a(',"items":{"type":"number"}'), BACKWARD),
    Evolution("items are restricted", a(), a(',"items":{"type":"number"}'), FORWARD),
    Evolution("items become unique", a(), a(',"uniqueItems":true'), FORWARD),
    Evolution("items need no longer be unique", a(',"uniqueItems":true'), a(), BACKWARD),
    Evolution(
        "a place is added to an open tuple", a(f',"items":[{STRING}]'), a(f',"items":[{STRING},{NUMBER}]'), FORWARD
    ),
    Evolution(
        "a place is added to a closed tuple",
        a(f',"items":[{STRING}],"additionalItems":false'),
        a(f',"items":[{STRING},{NUMBER}],"additionalItems":false'),
        BACKWARD,
    ),
    Evolution(
        "a tuple is closed", a(f',"items":[{STRING}]'), a(f',"items":[{STRING}],"additionalItems":false'), FORWARD
    ),
]

COMBINATIONS = [
    Evolution("oneOf gets a choice", f'{{"oneOf":[{STRING}]}}', f'{{"oneOf":[{STRING},{NUMBER}]}}', BACKWARD),
    Evolution("oneOf loses a choice", f'{{"oneOf":[{STRING},{NUMBER}]}}', f'{{"oneOf":[{STRING}]}}', FORWARD),
    Evolution("choices are reordered", f'{{"oneOf":[{STRING},{NUMBER}]}}', f'{{"oneOf":[{NUMBER},{STRING}]}}', BOTH),
    Evolution("oneOf becomes anyOf", f'{{"oneOf":[{STRING},{NUMBER}]}}', f'{{"anyOf":[{STRING},{NUMBER}]}}', BACKWARD),
    Evolution("a type joins a oneOf", STRING, f'{{"oneOf":[{STRING},{NUMBER}]}}', BACKWARD),
    Evolution("allOf demands less", f'{{"allOf":[{STRING},{INTEGER}]}}', f'{{"allOf":[{STRING}]}}', BACKWARD),
    Evolution("not forbids less", f'{{"not":{NUMBER}}}', f'{{"not":{INTEGER}}}', BACKWARD),
    Evolution("not forbids more", f'{{"not":{INTEGER}}}', f'{{"not":{NUMBER}}}', FORWARD),
    Evolution(
        "a definition is inlined",
        '{"$ref":"#/definitions/x","definitions":{"x":{"type":"string"}}}',
        STRING,
        BOTH,
    ),
    Evolution(
        "a recursive schema gets a property",
        '{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}',
        '{"type":"object","properties":{"next":{"$ref":"#"},"v":{"type":"string"}},"additionalProperties":false}',
        BACKWARD,
    ),
]

_2020 = '"$schema":"https://json-schema.org/draft/2020-12/schema",'

DRAFT_2020 = [
    Evolution(
        "prefixItems grow in a closed tuple",
        f'{{{_2020}"type":"array","prefixItems":[{STRING}],"items":false}}',
        f'{{{_2020}"type":"array","prefixItems":[{STRING},{NUMBER}],"items":false}}',
        BACKWARD,
    ),
    Evolution(
        "unevaluated properties are forbidden",
        f'{{{_2020}"type":"object","properties":{{{A}}}}}',
        f'{{{_2020}"type":"object","properties":{{{A}}},"unevaluatedProperties":false}}',
        FORWARD,
    ),
    Evolution(
        "dependentRequired is added",
        f'{{{_2020}"type":"object","properties":{{{AB}}}}}',
        f'{{{_2020}"type":"object","properties":{{{AB}}},"dependentRequired":{{"a":["b"]}}}}',
        FORWARD,
    ),
    Evolution(
        "$defs and an anchor",
        f'{{{_2020}"$ref":"#text","$defs":{{"t":{{"$anchor":"text","type":"string"}}}}}}',
        f'{{{_2020}"$ref":"#/$defs/t","$defs":{{"t":{{"type":"string","maxLength":3}}}}}}',
        FORWARD,
    ),
]

JSON = [*BOUNDS, *VALUES, *OBJECTS, *ARRAYS, *COMBINATIONS, *DRAFT_2020]
