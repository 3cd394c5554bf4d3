"""Evolutions of Protobuf schemas, with the verdicts of Confluent's published rules."""

from __future__ import annotations

from tests.registry.evolutions import BACKWARD, BOTH, FORWARD, NEITHER, Evolution


def m(body: str, rest: str = "", package: str = "p") -> str:
    return f'syntax = "proto3"; package {package}; message M {{ {body} }} {rest}'


def m2(body: str, rest: str = "") -> str:
    return f'syntax = "proto2"; package p; message M {{ {body} }} {rest}'


A = "string a = 1;"
N = "message N { int32 x = 1; }"
E = "enum E { Z = 0; Y = 1; }"

SCALARS = [
    Evolution(f"{old} becomes {new}", m(f"{old} a = 1;"), m(f"{new} a = 1;"), verdict)
    for old, new, verdict in [
        ("int32", "int64", BOTH),
        ("int32", "uint32", BOTH),
        ("int32", "uint64", BOTH),
        ("int32", "bool", BOTH),
        ("int64", "bool", BOTH),
        ("uint64", "int32", BOTH),
        ("sint32", "sint64", BOTH),
        ("fixed32", "sfixed32", BOTH),
        ("fixed64", "sfixed64", BOTH),
        ("string", "bytes", BOTH),
        ("bytes", "string", BOTH),
        ("int32", "sint32", NEITHER),
        ("int32", "fixed32", NEITHER),
        ("fixed32", "fixed64", NEITHER),
        ("float", "double", NEITHER),
        ("double", "float", NEITHER),
        ("int32", "float", NEITHER),
        ("string", "int32", NEITHER),
        ("int64", "string", NEITHER),
        ("bool", "string", NEITHER),
        ("sint64", "int64", NEITHER),
        ("float", "int32", NEITHER),
    ]
]

FIELDS = [
    Evolution("a field is added", m(A), m(A + "int32 b = 2;"), BOTH),
    Evolution("a field is removed", m(A + "int32 b = 2;"), m(A), BOTH),
    Evolution("a field is renamed", m(A), m("string b = 1;"), BOTH),
    Evolution("a field's number is changed", m(A), m("string a = 2;"), BOTH),
    Evolution("fields are reordered", m(A + "int32 b = 2;"), m("int32 b = 2;" + A), BOTH),
    Evolution("a string becomes repeated", m(A), m("repeated string a = 1;"), BOTH),
    Evolution("a number becomes repeated", m("int32 a = 1;"), m("repeated int32 a = 1;"), BOTH),
    Evolution("an optional number becomes repeated", m("optional int32 a = 1;"), m("repeated int32 a = 1;"), NEITHER),
    Evolution("an optional string becomes repeated", m("optional string a = 1;"), m("repeated string a = 1;"), BOTH),
    Evolution("a field becomes optional", m(A), m("optional string a = 1;"), BOTH),
    Evolution("a field becomes deprecated", m(A), m("string a = 1 [deprecated = true];"), BOTH),
    Evolution("a number is reserved", m(A + "int32 b = 2;"), m(A + "reserved 2;"), BOTH),
    Evolution(
        "a required field is added",
        m2("optional string a = 1;"),
        m2("optional string a = 1; required int32 b = 2;"),
        NEITHER,
    ),
    Evolution("an optional field is added to proto2", m2(""), m2("optional int32 b = 2;"), BOTH),
    Evolution("a required number becomes optional", m2("required int32 a = 1;"), m2("optional int32 a = 1;"), NEITHER),
    Evolution("a required string becomes optional", m2("required string a = 1;"), m2("optional string a = 1;"), BOTH),
    Evolution(
        "a default is changed",
        m2('optional string a = 1 [default = "x"];'),
        m2('optional string a = 1 [default = "y"];'),
        BOTH,
    ),
    Evolution("json_name is added", m(A), m('string a = 1 [json_name = "x"];'), BOTH),
]

MESSAGES = [
    Evolution("a message is added", m(A), m(A, N), BACKWARD),
    Evolution("a message is removed", m(A, N), m(A), FORWARD),
    Evolution("messages are reordered", m(A, N), f'syntax = "proto3"; package p; {N} message M {{ {A} }}', BOTH),
    Evolution("a nested message is added", m(A), m(A + N), BACKWARD),
    Evolution("a nested message is removed", m(A + N), m(A), FORWARD),
    Evolution("the package is changed", m(A), m(A, package="q"), NEITHER),
    Evolution("the package is dropped", m(A), f'syntax = "proto3"; message M {{ {A} }}', NEITHER),
    Evolution("a message is renamed", m(A), 'syntax = "proto3"; package p; message O { string a = 1; }', NEITHER),
    Evolution("the syntax is changed", m(""), m2(""), BOTH),
    Evolution("a file option is added", m(A), m(A, 'option java_package = "x";'), BOTH),
    Evolution("a service is added", m(A), m(A, "service S { rpc Do (M) returns (M); }"), BOTH),
    Evolution("a scalar becomes a message", m("int32 n = 1;" + N), m("N n = 1;" + N), NEITHER),
    Evolution("a message becomes a scalar", m("N n = 1;" + N), m("string n = 1;" + N), NEITHER),
    Evolution(
        "a field's message is another", m("N n = 1;" + N + "message O {}"), m("O n = 1;" + N + "message O {}"), NEITHER
    ),
    Evolution(
        "a field's message changes a scalar",
        m("N n = 1;", "message N { int32 x = 1; }"),
        m("N n = 1;", "message N { string x = 1; }"),
        NEITHER,
    ),
    Evolution(
        "a field's message gets a field",
        m("N n = 1;", "message N { int32 x = 1; }"),
        m("N n = 1;", "message N { int32 x = 1; int32 y = 2; }"),
        BOTH,
    ),
    Evolution("a name is spelled in full", m("N n = 1;", N), m(".p.N n = 1;", N), BOTH),
    Evolution("a recursive message gets a field", m("M next = 1;"), m("M next = 1; int32 v = 2;"), BOTH),
    Evolution("a message field becomes repeated", m("N n = 1;", N), m("repeated N n = 1;", N), BOTH),
    Evolution(
        "a well-known type is used",
        m(A),
        m(A + "google.protobuf.Timestamp t = 2;", 'import "google/protobuf/timestamp.proto";'),
        BOTH,
    ),
]

ENUMS = [
    Evolution("an enum is added", m(A), m(A, E), BOTH),
    Evolution("an enum is removed", m(A, E), m(A), BOTH),
    Evolution("a value is added", m("E e = 1;", E), m("E e = 1;", "enum E { Z = 0; Y = 1; X = 2; }"), BOTH),
    Evolution("a value is removed", m("E e = 1;", E), m("E e = 1;", "enum E { Z = 0; }"), BOTH),
    Evolution("a value is renamed", m("E e = 1;", E), m("E e = 1;", "enum E { Z = 0; W = 1; }"), BOTH),
    Evolution("an enum becomes a number", m("E e = 1;", E), m("int32 e = 1;", E), BOTH),
    Evolution("a number becomes an enum", m("int32 e = 1;", E), m("E e = 1;", E), BOTH),
    Evolution("an enum becomes a string", m("E e = 1;", E), m("string e = 1;", E), NEITHER),
    Evolution("an enum becomes a message", m("E e = 1;", E + N), m("N e = 1;", E + N), NEITHER),
    Evolution("an enum becomes a signed number", m("E e = 1;", E), m("sint32 e = 1;", E), NEITHER),
]

MAPS = [
    Evolution("a map's value is widened", m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;"), BOTH),
    Evolution("a map's value is changed", m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), NEITHER),
    Evolution("a map's key is changed", m("map<string, int32> a = 1;"), m("map<int32, int32> a = 1;"), NEITHER),
    Evolution("a map becomes a message", m("map<string, int32> a = 1;", N), m("N a = 1;", N), NEITHER),
    Evolution("a map becomes a scalar", m("map<string, int32> a = 1;"), m("int32 a = 1;"), NEITHER),
    Evolution("a map is added", m(A), m(A + "map<string, int32> b = 2;"), BOTH),
]

ONEOFS = [
    Evolution("a oneof is added with new fields", m(A), m(A + "oneof o { int32 b = 2; }"), BOTH),
    Evolution("a oneof is removed with its fields", m(A + "oneof o { int32 b = 2; }"), m(A), BOTH),
    Evolution(
        "a oneof gets a field", m("oneof o { int32 a = 1; }"), m("oneof o { int32 a = 1; int32 b = 2; }"), BACKWARD
    ),
    Evolution(
        "a oneof loses a field", m("oneof o { int32 a = 1; int32 b = 2; }"), m("oneof o { int32 a = 1; }"), FORWARD
    ),
    Evolution("a oneof of one is dissolved", m("oneof o { int32 a = 1; }"), m("int32 a = 1;"), BOTH),
    Evolution(
        "a oneof of two is dissolved",
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        m("int32 a = 1; int32 b = 2;"),
        BACKWARD,
    ),
    Evolution(
        "two fields join a new oneof",
        m("int32 a = 1; int32 b = 2;"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        FORWARD,
    ),
    Evolution(
        "a field joins an existing oneof",
        m("int32 a = 1; oneof o { int32 b = 2; }"),
        m("oneof o { int32 a = 1; int32 b = 2; }"),
        FORWARD,
    ),
    Evolution("a oneof is renamed", m("oneof o { int32 a = 1; }"), m("oneof q { int32 a = 1; }"), BOTH),
    Evolution("a oneof's field is renamed", m("oneof o { int32 a = 1; }"), m("oneof o { int32 c = 1; }"), BOTH),
    Evolution(
        "a oneof's field changes its kind", m("oneof o { int32 a = 1; }"), m("oneof o { string a = 1; }"), NEITHER
    ),
]

PROTOBUF = [*SCALARS, *FIELDS, *MESSAGES, *ENUMS, *MAPS, *ONEOFS]
