"""A node with a registry, for all tests of a module, and requests to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import cordwood.testing.embedded
from cordwood.runtime.blocking_http import exchange


class Reply(NamedTuple):
    status: int
    body: Any
    content_type: str

    @property
    def code(self) -> int:
        return int(self.body["error_code"])


class Rest:
    """Requests to a registry."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
        given = {"content-type": "application/vnd.schemaregistry.v1+json"} | (headers or {})
        answer = exchange(self.url, method, path, given, sent, 30.0)
        try:
            parsed = json.loads(answer.body) if answer.body else None
        except ValueError:
            parsed = answer.body.decode()
        return Reply(answer.status, parsed, answer.headers.get("content-type", ""))

    def register(self, subject: str, schema: str, schema_type: str = "AVRO", **more: Any) -> Reply:
        return self("POST", f"/subjects/{subject}/versions", {"schema": schema, "schemaType": schema_type, **more})


def record(name: str, *fields: str) -> str:
    """An Avro record whose fields are ints; `x=1` has a default."""
    made = []
    for field in fields:
        field_name, has_default, default = field.partition("=")
        made.append({"name": field_name, "type": "int", **({"default": int(default)} if has_default else {})})
    return json.dumps({"type": "record", "name": name, "fields": made}, separators=(",", ":"))


@pytest.fixture(scope="module")
def node() -> Iterator[cordwood.testing.embedded.EmbeddedNode]:
    with cordwood.testing.node(registry=True) as started:
        yield started


@pytest.fixture(scope="module")
def rest(node: cordwood.testing.embedded.EmbeddedNode) -> Rest:
    return Rest(node.registry_url)


@pytest.fixture
def subject() -> str:
    return f"subject-{uuid.uuid4().hex[:8]}"
