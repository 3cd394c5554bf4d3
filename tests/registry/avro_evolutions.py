"""Evolutions of Avro schemas, with the verdicts of the specification's section on schema resolution."""

from __future__ import annotations

from tests.registry.evolutions import BACKWARD, BOTH, FORWARD, NEITHER, Evolution


def r(fields: str, name: str = "R", more: str = "") -> str:
    return f'{{"type":"record","name":"{name}"{more},"fields":[{fields}]}}'


def f(type_: str, more: str = "", name: str = "x") -> str:
    return f'{{"name":"{name}","type":{type_}{more}}}'


A = f('"int"', name="a")
DEFAULT = ',"default":1'
ENUM = '{"type":"enum","name":"E","symbols":["A","B"]}'
ENUM3 = '{"type":"enum","name":"E","symbols":["A","B","C"]}'
ENUM_DEFAULT = '{"type":"enum","name":"E","symbols":["A","B"],"default":"A"}'
FIXED = '{"type":"fixed","name":"F","size":4}'
X, X_DEFAULT = f('"int"'), f('"int"', DEFAULT)
NEXT = f('["null","R"]', ',"default":null', "next")
TREE = r(NEXT)


def _of_type(name: str, old: str, new: str, verdict: str) -> Evolution:
    return Evolution(name, r(f(old)), r(f(new)), verdict)


PROMOTIONS = [
    _of_type(f"{old} becomes {new}", f'"{old}"', f'"{new}"', verdict)
    for old, new, verdict in [
        ("int", "long", BACKWARD),
        ("int", "float", BACKWARD),
        ("int", "double", BACKWARD),
        ("long", "float", BACKWARD),
        ("long", "double", BACKWARD),
        ("float", "double", BACKWARD),
        ("string", "bytes", BOTH),
        ("bytes", "string", BOTH),
        ("long", "int", FORWARD),
        ("double", "float", FORWARD),
        ("double", "int", FORWARD),
        ("float", "long", FORWARD),
        ("int", "string", NEITHER),
        ("int", "boolean", NEITHER),
        ("boolean", "int", NEITHER),
        ("string", "int", NEITHER),
        ("null", "int", NEITHER),
        ("bytes", "long", NEITHER),
        ("string", "null", NEITHER),
        ("double", "string", NEITHER),
        ("int", "int", BOTH),
    ]
]

FIELDS = [
    Evolution("a field with a default is added", r(A), r(A + "," + X_DEFAULT), BOTH),
    Evolution("a field without a default is added", r(A), r(A + "," + X), FORWARD),
    Evolution("a field with a default is removed", r(A + "," + X_DEFAULT), r(A), BOTH),
    Evolution("a field without a default is removed", r(A + "," + X), r(A), BACKWARD),
    Evolution("a field is renamed with an alias", r(A), r(f('"int"', ',"aliases":["a"]')), BACKWARD),
    Evolution("a field is renamed without an alias", r(A), r(f('"int"')), NEITHER),
    Evolution("a field with a default is renamed", r(f('"int"', DEFAULT, "a")), r(f('"int"', DEFAULT)), BOTH),
    Evolution("fields are reordered", r(A + "," + X), r(X + "," + A), BOTH),
    Evolution("a default is added to a field", r(A), r(f('"int"', DEFAULT, "a")), BOTH),
    Evolution("a default is removed from a field", r(f('"int"', DEFAULT, "a")), r(A), BOTH),
    Evolution("a default is changed", r(f('"int"', DEFAULT)), r(f('"int"', ',"default":2')), BOTH),
    Evolution("a doc is added", r(A), r(f('"int"', ',"doc":"d"', "a")), BOTH),
    Evolution("an order is added", r(A), r(f('"int"', ',"order":"ignore"', "a")), BOTH),
    Evolution("a nullable field with a default is added", r(""), r(f('["null","int"]', ',"default":null')), BOTH),
    Evolution("a nullable field without a default is added", r(""), r(f('["null","int"]')), FORWARD),
    Evolution("an empty record gets nothing", r(""), r(""), BOTH),
    Evolution("two fields are added, one without a default", r(""), r(A + "," + X_DEFAULT), FORWARD),
    Evolution(
        "a field with an alias is added beside the aliased one",
        r(A),
        r(A + "," + f('"int"', ',"default":1,"aliases":["b"]')),
        BOTH,
    ),
    Evolution("an enum field with a default of the enum only is added", r(""), r(f(ENUM_DEFAULT)), FORWARD),
    Evolution("a custom property is added", r(A), r(f('"int"', ',"unit":"m"', "a")), BOTH),
]

NAMES = [
    Evolution("a record is renamed", r(A), r(A, "S"), NEITHER),
    Evolution("a record is renamed with an alias", r(A), r(A, "S", ',"aliases":["R"]'), BACKWARD),
    Evolution("a namespace is added", r(A), r(A, "R", ',"namespace":"n"'), BOTH),
    Evolution("a namespace is changed", r(A, "R", ',"namespace":"m"'), r(A, "R", ',"namespace":"n"'), BOTH),
    Evolution("an alias of another name", r(A), r(A, "S", ',"aliases":["T"]'), NEITHER),
    _of_type("a fixed type is renamed", FIXED, '{"type":"fixed","name":"G","size":4}', NEITHER),
    _of_type(
        "a fixed type is renamed with an alias", FIXED, '{"type":"fixed","name":"G","aliases":["F"],"size":4}', BACKWARD
    ),
    _of_type("an enum is renamed", ENUM, '{"type":"enum","name":"G","symbols":["A","B"]}', NEITHER),
    _of_type("a fixed type grows", FIXED, '{"type":"fixed","name":"F","size":8}', NEITHER),
    _of_type("a fixed type becomes bytes", FIXED, '"bytes"', NEITHER),
]

ENUMS = [
    _of_type("a symbol is added", ENUM, ENUM3, BACKWARD),
    _of_type("a symbol is removed", ENUM3, ENUM, FORWARD),
    _of_type("a symbol is removed, the reader has a default", ENUM3, ENUM_DEFAULT, BOTH),
    _of_type("symbols are reordered", ENUM, '{"type":"enum","name":"E","symbols":["B","A"]}', BOTH),
    _of_type("a symbol is renamed", ENUM, '{"type":"enum","name":"E","symbols":["A","C"]}', NEITHER),
    _of_type("an enum becomes a string", ENUM, '"string"', NEITHER),
    _of_type("a string becomes an enum", '"string"', ENUM, NEITHER),
    _of_type("an enum's default is added", ENUM, ENUM_DEFAULT, BOTH),
    _of_type("all symbols change, both have defaults", ENUM_DEFAULT, ENUM_DEFAULT.replace('"B"', '"C"'), BOTH),
]

UNIONS = [
    _of_type("a type becomes a union with it", '"int"', '["null","int"]', BACKWARD),
    _of_type("a union becomes one of its types", '["null","int"]', '"int"', FORWARD),
    _of_type("a branch is added", '["null","int"]', '["null","int","string"]', BACKWARD),
    _of_type("a branch is removed", '["null","int","string"]', '["null","int"]', FORWARD),
    _of_type("branches are reordered", '["null","int"]', '["int","null"]', BOTH),
    _of_type("a branch is promoted", '["null","int"]', '["null","long"]', BACKWARD),
    _of_type("a branch is changed", '["null","int"]', '["null","boolean"]', NEITHER),
    _of_type("an int becomes a union with long", '"int"', '["null","long"]', BACKWARD),
    _of_type("a union of numbers becomes double", '["int","long"]', '"double"', BACKWARD),
    _of_type("a union of one becomes its type", '["int"]', '"int"', BOTH),
    _of_type("an empty union becomes anything", "[]", '"int"', BACKWARD),
    _of_type("a record joins a union", r(A, "S"), f'["null",{r(A, "S")}]', BACKWARD),
    _of_type("a record in a union loses a field", f'["null",{r(A, "S")}]', f'["null",{r("", "S")}]', BACKWARD),
    _of_type("a record in a union gets a field", f'["null",{r("", "S")}]', f'["null",{r(A, "S")}]', FORWARD),
    _of_type("an enum in a union gets a symbol", f'["null",{ENUM}]', f'["null",{ENUM3}]', BACKWARD),
    _of_type("string becomes bytes within unions", '["null","string"]', '["null","bytes"]', BOTH),
]

CONTAINERS = [
    _of_type("items are promoted", '{"type":"array","items":"int"}', '{"type":"array","items":"long"}', BACKWARD),
    _of_type("items change", '{"type":"array","items":"int"}', '{"type":"array","items":"string"}', NEITHER),
    _of_type(
        "items become nullable", '{"type":"array","items":"int"}', '{"type":"array","items":["null","int"]}', BACKWARD
    ),
    _of_type("values are promoted", '{"type":"map","values":"float"}', '{"type":"map","values":"double"}', BACKWARD),
    _of_type("values change", '{"type":"map","values":"int"}', '{"type":"map","values":"string"}', NEITHER),
    _of_type("an array becomes a map", '{"type":"array","items":"int"}', '{"type":"map","values":"int"}', NEITHER),
    _of_type("a type becomes an array of it", '"int"', '{"type":"array","items":"int"}', NEITHER),
    _of_type("a nested record gets a field with a default", r("", "S"), r(f('"int"', DEFAULT), "S"), BOTH),
    _of_type("a nested record gets a field without a default", r("", "S"), r(A, "S"), FORWARD),
    _of_type("a record becomes a map", r(A, "S"), '{"type":"map","values":"int"}', NEITHER),
]

OTHERS = [
    Evolution("a recursive record stays", TREE, TREE, BOTH),
    Evolution(
        "a recursive record gets a field without a default",
        TREE,
        r(NEXT + "," + A),
        FORWARD,
    ),
    Evolution("a logical type is added", r(f('"int"')), r(f('{"type":"int","logicalType":"date"}')), BOTH),
    Evolution(
        "a decimal's scale is changed",
        r(f('{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}')),
        r(f('{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}')),
        BOTH,
    ),
    Evolution("primitives at the top", '"int"', '"long"', BACKWARD),
    Evolution("a record becomes a primitive", r(A), '"int"', NEITHER),
    Evolution("a union at the top gets a branch", f'["null",{r(A)}]', f'["null",{r(A)},"int"]', BACKWARD),
    Evolution("an error becomes a record", r(A).replace("record", "error"), r(A), BOTH),
]

AVRO = [*PROMOTIONS, *FIELDS, *NAMES, *ENUMS, *UNIONS, *CONTAINERS, *OTHERS]
