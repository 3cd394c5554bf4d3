"""The parameters of requests, from query and body, checked."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request

from cordwood.registry.schemas.schema import AVRO, SCHEMA_TYPES, Reference
from cordwood.registry.state.errors import RegistryError, invalid_schema, invalid_version
from cordwood.registry.state.records import Json
from cordwood.registry.state.registration import NEW, Submitted
from cordwood.registry.state.settings import check_metadata, check_rule_set
from cordwood.registry.state.subjects import Subject, parse_subject

_CONTENT_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
_MAX_VERSION = 2**31 - 1


def subject_of(request: Request) -> Subject:
    return parse_subject(parameter(request, "subject"))


def parameter(request: Request, name: str) -> str:
    """A part of the path."""
    return unquote(request.path_params[name])


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    value = request.query_params.get(name)
    return default if value is None else value.lower() == "true"


def number(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name)
    if value is None:
        return default
    try:
        return int(value)
    except ValueError:
        raise RegistryError(404, f"HTTP 404 Not Found: {name}={value[:50]} is not a number") from None


def version_of(text: str) -> int | None:
    """None is the latest. Raises `RegistryError`."""
    if text in ("latest", "-1"):
        return None
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:11]) <= _MAX_VERSION:
        raise invalid_version(text[:50])
    return int(text)


def id_of(request: Request) -> int:
    text = parameter(request, "id")
    if not text.isascii() or not text.removeprefix("-").isdecimal() or len(text) > 11:
        raise RegistryError(404, "HTTP 404 Not Found: an id is a number")
    return int(text)


async def body_of(request: Request) -> Json:
    """Raises `RegistryError`."""
    content_type = request.headers.get("content-type", _CONTENT_TYPES[0]).split(";")[0].strip().lower()
    if content_type not in _CONTENT_TYPES:
        raise RegistryError(415, f"HTTP 415 Unsupported Media Type: send {_CONTENT_TYPES[0]}")
    raw = await request.body()
    try:
        text = raw.decode()
        body = json.loads(text)
        if "\\u" in text:
            # Half of a pair of surrogates can be escaped, and neither be stored nor returned.
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise RegistryError(400, "The body is not valid JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise RegistryError(400, "The body must be a JSON object")
    return body


def submitted(body: Json) -> Submitted:
    """Fields that are not known are ignored: newer clients have more. Raises `RegistryError`."""
    text, schema_type = body.get("schema"), body.get("schemaType") or AVRO
    if not isinstance(text, str):
        raise invalid_schema("Empty schema")
    if not isinstance(schema_type, str) or schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"Invalid schema type {str(schema_type)[:50]}")
    metadata, rule_set = body.get("metadata"), body.get("ruleSet")
    check_metadata(metadata)
    check_rule_set(rule_set)
    return Submitted(
        text,
        schema_type,
        tuple(_reference(each) for each in _list(body.get("references"))),
        metadata,
        rule_set,
        _integer(body, "id", NEW),
        _integer(body, "version", 0),
    )


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid_schema("references must be a list")
    return value


def _reference(value: Any) -> Reference:
    if isinstance(value, dict):
        name, subject, version = value.get("name"), value.get("subject"), value.get("version")
        if isinstance(name, str) and isinstance(subject, str) and isinstance(version, int) and _is_version(version):
            return Reference(name, subject, version)
    raise invalid_schema("A reference has a name, a subject and a version")


def _is_version(number: int) -> bool:
    return number == -1 or 1 <= number <= _MAX_VERSION


def _integer(body: Json, name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_VERSION:
        raise invalid_schema(f"{name} must be a 32-bit number")
    return value
