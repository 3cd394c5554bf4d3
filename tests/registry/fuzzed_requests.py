"""Absurd requests to a registry, mixed with valid ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

JSON_TYPE = "application/vnd.schemaregistry.v1+json"


class FuzzedRequest(NamedTuple):
    method: str
    path: str
    """As it is sent."""
    query: str
    content_type: str
    body: bytes


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "BREW")
TEMPLATES = (
    *("/", "/subjects", "/subjects/{s}", "/subjects/{s}/versions", "/subjects/{s}/versions/{v}"),
    *("/subjects/{s}/versions/{v}/schema", "/subjects/{s}/versions/{v}/referencedby", "/subjects/{s}/metadata"),
    *("/compatibility/subjects/{s}/versions", "/compatibility/subjects/{s}/versions/{v}"),
    *("/schemas", "/schemas/types", "/schemas/ids/{v}", "/schemas/ids/{v}/schema", "/schemas/ids/{v}/subjects"),
    *("/schemas/ids/{v}/versions", "/schemas/guids/{s}", "/schemas/guids/{s}/ids", "/contexts", "/contexts/{s}"),
    *("/config", "/config/{s}", "/mode", "/mode/{s}", "/v1/metadata/id", "/exporters", "/exporters/{s}/{s}"),
    *("/{s}", "//subjects", "/subjects/", "/subjects//versions", "/subjects/../config", "/%2e%2e/{s}", "/SUBJECTS"),
)
SUBJECTS = (
    *("a", "b", "c-value", ":.x:a", ":.x:", ":.", ":*:", ":*:a", "", ".", "..", "../../etc/passwd", "a/b", "%", "%00"),
    *("\0", "\n", "a b", "ä€😀", "__GLOBAL", "null", "a" * 5_000, ":.x" * 500, "{s}", "a?b#c", "\\", "'; DROP TABLE"),
)
VERSIONS = (
    *(
        "1",
        "2",
        "3",
        "latest",
        "-1",
        "0",
        "-2",
        "2147483647",
        "2147483648",
        "1e3",
        "0x1",
        "\u0661",
        "1.0",
        " 1",
        "x",
        "",
    ),
    *("9" * 5_000, "LATEST", "NaN", "+1"),
)
QUERIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("deleted", ("true", "false", "maybe", "")),
    ("permanent", ("true", "false")),
    ("normalize", ("true", "x")),
    ("verbose", ("true",)),
    ("force", ("true",)),
    ("offset", ("0", "-5", "99999999999999999999", "x")),
    ("limit", ("0", "-1", "1", "x", "1e9")),
    ("subjectPrefix", ("", ":*:", ":.x:", "a", "\0")),
    ("subject", SUBJECTS),
    ("format", ("serialized", "resolved", "default", "ignore_extensions", "\0")),
    ("defaultToGlobal", ("true",)),
    ("fetchMaxId", ("true",)),
    ("latestOnly", ("true",)),
    ("key", ("a",)),
    ("value", ("b",)),
)
TYPES: tuple[Any, ...] = ("AVRO", "JSON", "PROTOBUF", "", None, "avro", "XML", 5, [], {})
CONTENT_TYPES = (JSON_TYPE, JSON_TYPE, JSON_TYPE, "application/json", "text/plain", "", "application/xml; q=x", "\x7f")
SCALARS: tuple[Any, ...] = (None, True, 0, -1, 2**31, 2**63, 10**40, 1e308, "", "x", [], {}, [[]], {"": None}, "\ud800")


def fuzzed_request(source: Random) -> FuzzedRequest:
    template = source.choice(TEMPLATES)
    path = "".join(_part(source, each) for each in _split(template))
    query = "&".join(
        f"{name}={quote(source.choice(values), safe='')}"
        for name, values in source.sample(QUERIES, source.choice((0, 0, 1, 2, 4)))
    )
    method = source.choice(METHODS) if source.random() < 0.3 else _fitting(source, template)
    body = b"" if method in ("GET", "HEAD") and source.random() < 0.9 else _body(source)
    return FuzzedRequest(method, path, query, source.choice(CONTENT_TYPES), body)


def _split(template: str) -> list[str]:
    return template.replace("{s}", "\0s\0").replace("{v}", "\0v\0").split("\0")


def _part(source: Random, part: str) -> str:
    if part == "s":
        subject = source.choice(SUBJECTS[:6]) if source.random() < 0.6 else source.choice(SUBJECTS)
        return quote(subject, safe="") if source.random() < 0.95 else quote(subject, safe="/%")
    if part == "v":
        version = source.choice(VERSIONS[:4]) if source.random() < 0.5 else source.choice(VERSIONS)
        return quote(version, safe="")
    return part


def _fitting(source: Random, template: str) -> str:
    if template.startswith(("/config", "/mode")):
        return source.choice(("GET", "PUT", "DELETE"))
    if template.startswith("/compatibility") or template == "/subjects/{s}/versions":
        return "POST"
    if template.startswith("/subjects/{s}"):
        return source.choice(("GET", "POST", "DELETE"))
    return "GET"


def _body(source: Random) -> bytes:
    kind = source.randrange(20)
    if kind == 0:
        return source.choice(
            (b"", b"{", b"nul", b"\xff\xfe", b"\0" * 50, b'{"schema":', b"[]", b'"x"', b"NaN", b"1" * 20_000)
        )
    if kind == 1:
        return source.choice((b"[", b'{"a":')) * source.choice((100, 5_000, 100_000))
    if kind == 2:
        return bytes(source.randrange(256) for _ in range(source.randrange(300)))
    value: dict[str, Any] = {"schema": schema_text(source)}
    if source.random() < 0.7:
        value["schemaType"] = source.choice(TYPES[:3]) if source.random() < 0.8 else source.choice(TYPES)
    if source.random() < 0.3:
        value["references"] = [_reference(source) for _ in range(source.choice((0, 1, 1, 2, 50)))]
    for name in (
        "id",
        "version",
        "metadata",
        "ruleSet",
        "compatibility",
        "mode",
        "alias",
        "normalize",
        "compatibilityGroup",
    ):
        if source.random() < 0.08:
            value[name] = _setting(source, name)
    if source.random() < 0.05:
        value[source.choice(list(value))] = source.choice(SCALARS)
    sent = json.dumps(value).encode()
    if source.random() < 0.05:
        at = source.randrange(len(sent))
        sent = sent[:at] + bytes([source.randrange(256)]) + sent[at + 1 :]
    return sent


def _setting(source: Random, name: str) -> Any:
    if source.random() < 0.4:
        return source.choice(SCALARS)
    match name:
        case "compatibility":
            return source.choice(("NONE", "BACKWARD", "FULL_TRANSITIVE", "full", "X"))
        case "mode":
            return source.choice(("READWRITE", "READONLY", "IMPORT", "import", "FORWARD", "X"))
        case "metadata":
            return source.choice(({"properties": {"a": "b"}}, {"tags": {"**": ["x"]}}, {"properties": {"a": 5}}))
        case "ruleSet":
            rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "(" * 1_000}
            return {"domainRules": source.choice(([rule], [rule, rule], [{}], 5))}
        case "alias" | "compatibilityGroup":
            return source.choice(SUBJECTS)
    return source.choice((1, 2, 7, True))


def _reference(source: Random) -> Any:
    if source.random() < 0.1:
        return source.choice(SCALARS)
    name = source.choice(("R", "a.proto", "a.json", "#", "x" * 1_000, ""))
    return {"name": name, "subject": source.choice(SUBJECTS[:6]), "version": source.choice((1, 2, -1, 0, 2**31, "1"))}


def schema_text(source: Random) -> str:
    return source.choice(_SCHEMAS)(source)


def _avro(source: Random) -> str:
    fields = [
        {"name": f"f{number}", "type": _avro_type(source, 3), "default": 0} for number in range(source.randrange(6))
    ]
    return json.dumps({"type": "record", "name": source.choice(("R", "S", "a.R", "", "1")), "fields": fields})


def _avro_type(source: Random, depth: int) -> Any:
    if depth == 0 or source.random() < 0.5:
        return source.choice(("int", "string", "R", "a.b.C", "null", "bytes", "nonsense", 5, None))
    return source.choice(
        (
            {"type": "array", "items": _avro_type(source, depth - 1)},
            {"type": "map", "values": _avro_type(source, depth - 1)},
            [_avro_type(source, depth - 1), "null"],
            {"type": "enum", "name": "E", "symbols": ["A", "A", ""]},
            {"type": "fixed", "name": "F", "size": source.choice((-1, 0, 16, 2**40))},
            {"type": "bytes", "logicalType": "decimal", "precision": source.choice((-1, 0, 5, 10**9)), "scale": 7},
        )
    )


def _deep_avro(source: Random) -> str:
    depth = source.choice((50, 99, 101, 2_000, 50_000))
    return '{"type":"array","items":' * depth + '"int"' + "}" * depth


def _recursive_avro(_source: Random) -> str:
    fields = [{"name": "n", "type": ["null", "R"]}, {"name": "m", "type": {"type": "map", "values": "R"}}]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _wide_avro(source: Random) -> str:
    count = source.choice((10, 1_000, 5_000))
    fields = [{"name": f"f{number}", "type": ["null", "int"], "default": None} for number in range(count)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _union_of_unions(source: Random) -> str:
    def made(depth: int, name: str) -> Any:
        if depth == 0:
            return "int"
        return [
            {
                "type": "record",
                "name": f"{name}{number}",
                "fields": [{"name": "x", "type": made(depth - 1, f"{name}{number}")}],
            }
            for number in range(4)
        ]

    return json.dumps(made(source.choice((1, 2, 3)), "U"))


def _json(source: Random) -> str:
    def made(depth: int) -> Any:
        if depth == 0:
            return source.choice(
                (True, False, {}, {"type": "integer"}, {"type": "nonsense"}, {"$ref": "#"}, {"$ref": "#/x"}, 5)
            )
        return source.choice(
            (
                {"type": "object", "properties": {"x": made(depth - 1)}, "required": source.choice((["x"], "x", 5))},
                {"type": "array", "items": made(depth - 1), "prefixItems": [made(0)]},
                {"oneOf": [made(depth - 1), made(depth - 1)]},
                {"allOf": [made(depth - 1), {"$ref": "#"}]},
                {"not": made(depth - 1)},
                {"if": made(0), "then": made(0), "else": made(depth - 1)},
                {"enum": source.choice(([1, 2], [], 5, [{}])), "const": None},
                {"$schema": source.choice(("http://json-schema.org/draft-04/schema#", "http://nowhere.invalid/x", 5))},
                {"$ref": source.choice(("a.json", "file:///etc/passwd", "http://127.0.0.1:1/x", "#/definitions/x"))},
                {"minimum": source.choice((0, -1e308, "x")), "multipleOf": source.choice((0, -1, 1e-300))},
            )
        )

    return json.dumps(made(source.randrange(4)))


def _exploding_patterns(source: Random) -> str:
    pattern = source.choice(
        ("(a+)+$", "(a|a)*b", "(.*)*" * 20, "(?=" * 50, "[" * 1_000, "a{1000}{1000}", "\\1(a)", "(" * 5_000)
    )
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": pattern, "default": "a" * 40 + "!"}},
        "patternProperties": {pattern: {"type": "string"}},
    }
    return json.dumps(schema)


def _deep_json(source: Random) -> str:
    depth = source.choice((50, 101, 3_000, 30_000))
    return '{"not":' * depth + "true" + "}" * depth


def _recursive_json(_source: Random) -> str:
    return '{"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}},"$ref":"#/definitions/a"}'


def _proto(source: Random) -> str:
    head = source.choice(('syntax = "proto3";', 'syntax = "proto2";', "", 'edition = "2023";', "syntax = 5;"))
    body = source.choice(
        (
            "message R { int32 x = 1; }",
            "message R { R r = 1; map<string, R> m = 2; oneof o { int32 a = 3; } }",
            "message R { int32 x = 0; int32 x = 1; reserved 1 to max; }",
            "message R { int32 x = 536870912; }",
            'import "a.proto"; message S { R r = 1; }',
            'import "google/protobuf/timestamp.proto"; message S { google.protobuf.Timestamp t = 1; }',
            'import "../../etc/passwd"; message S {}',
            "enum E { A = 1; B = 1; }",
            "message R { extensions 1 to 5; } extend R { optional int32 y = 2; }",
            'option java_package = "' + "x" * 1_000 + '"; message R {}',
            "message R { int32 x = 1",
            "/* " * 1_000,
        )
    )
    return f"{head} {body}"


def _deep_proto(source: Random) -> str:
    depth = source.choice((20, 101, 2_000, 20_000))
    return 'syntax = "proto3"; ' + "message R { " * depth + "}" * depth


def _garbage(source: Random) -> str:
    return source.choice(
        ("", " ", "{}", "[]", "5", '"int"', '"R"', "null", "\0", "CgFhEgFi", "////", "😀" * 100, "\ud800")
    )


def _huge(source: Random) -> str:
    # Seldom: it takes as long as many others.
    if source.random() < 0.97:
        return _garbage(source)
    return json.dumps(
        {"type": "record", "name": "R", "fields": [], "doc": "x" * source.choice((500_000, 2_000_000, 7_000_000))}
    )


_SCHEMAS: tuple[Callable[[Random], str], ...] = (
    *(_avro, _avro, _deep_avro, _recursive_avro, _union_of_unions, _json, _json, _exploding_patterns, _deep_json),
    *(_recursive_json, _proto, _proto, _deep_proto, _garbage, _huge, _avro, _json, _proto, _garbage, _wide_avro),
)
