"""**RegistryClient**: a client of a registry, which caches immutable results.

>>> client = RegistryClient("http://localhost:8081")
>>> client.register("orders-value", '{"type":"record","name":"Order","fields":[]}').id
1

May be shared by threads. Calls block; from an event loop, use `asyncio.to_thread`.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from cordwood.runtime.blocking_http import Answer, Unreachable, exchange
from cordwood.runtime.threads import Lock
from cordwood.runtime.tls import ClientTls

from .schemas.parsing import parse_schema
from .schemas.schema import AVRO, Reference, Schema
from .state.records import read_reference

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryRefused(Exception):
    """The registry's answer is an error; `code` is Confluent's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{message} (error code {code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    id: int
    guid: str
    schema: Schema
    """The parsed schema, with all its references."""
    version: int | None = None


class RegistryClient:
    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str = "",
        timeout_s: float = 30.0,
        cached: int = 1_000,
        tls: ClientTls | None = None,
    ) -> None:
        """`url` may have several, separated by commas. `cached`: the number of schemas cached by id and by text. `tls`
        is for https; without it the system's certificates are trusted, and no client certificate is used."""
        self._urls = [each.strip().rstrip("/") for each in url.split(",")]
        self._headers = {"accept": _CONTENT_TYPE, "content-type": _CONTENT_TYPE}
        if user is not None:
            encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["authorization"] = f"Basic {encoded}"
        self._timeout_s = timeout_s
        self._tls = tls
        self._known: _Cache = _Cache(cached)

    def register(
        self,
        subject: str,
        text: str,
        schema_type: str = AVRO,
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """Raises `RegistryRefused` or `Unreachable`."""
        key = ("register", subject, text, schema_type, tuple(references), normalize)
        known = self._known.get(key)
        if known is None:
            path = f"/subjects/{quote(subject, safe='')}/versions?normalize={str(normalize).lower()}"
            answer = self.ask("POST", path, _body(text, schema_type, references))
            if "guid" not in answer:
                # Older registries return only the id.
                answer = self.ask("POST", f"/subjects/{quote(subject, safe='')}", _body(text, schema_type, references))
            known = self._known.put(key, self._registered(answer["id"], answer))
        return known

    def look_up(
        self, subject: str, text: str, schema_type: str = AVRO, references: Sequence[Reference] = ()
    ) -> RegisteredSchema:
        key = ("look up", subject, text, schema_type, tuple(references))
        known = self._known.get(key)
        if known is None:
            answer = self.ask("POST", f"/subjects/{quote(subject, safe='')}", _body(text, schema_type, references))
            known = self._known.put(key, self._registered(answer["id"], answer))
        return known

    def parsed(self, text: str, schema_type: str = AVRO, references: Sequence[Reference] = ()) -> Schema:
        """Parses a schema, registered or not, with its references. Raises `InvalidSchema`."""
        resolved: dict[str, str] = {}
        self._resolve(references, resolved)
        return parse_schema(schema_type, text, tuple(references), resolved)

    def latest(self, subject: str) -> RegisteredSchema:
        answer = self.ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._registered(answer["id"], answer)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Returns a schema, even a soft-deleted one."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        answer = self.ask("GET", path)
        return self._registered(answer["id"], answer)

    def by_id(self, id_: int, subject: str = "") -> RegisteredSchema:
        key = ("id", id_, subject)
        known = self._known.get(key)
        if known is None:
            query = f"?subject={quote(subject, safe='')}" if subject else ""
            known = self._known.put(key, self._registered(id_, self.ask("GET", f"/schemas/ids/{id_}{query}")))
        return known

    def known_by_id(self, id_: int, subject: str = "") -> RegisteredSchema | None:
        """Returns it from the cache, without a request."""
        return self._known.get(("id", id_, subject))

    def known_by_guid(self, guid: str) -> RegisteredSchema | None:
        return self._known.get(("guid", guid))

    def by_guid(self, guid: str) -> RegisteredSchema:
        known = self._known.get(("guid", guid))
        if known is None:
            answer = self.ask("GET", f"/schemas/guids/{guid}")
            known = self._known.put(("guid", guid), self._registered(-1, answer))
        return known

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends any request; tries the next URL if one does not answer. Raises `RegistryRefused` or `Unreachable`."""
        sent = None if body is None else json.dumps(body).encode()
        failure: Unreachable | None = None
        for url in self._urls:
            try:
                answer = exchange(url, method, path, self._headers, sent, self._timeout_s, self._tls)
            except Unreachable as error:
                failure = error
                continue
            if answer.status >= 400:
                raise _refusal(answer)
            return json.loads(answer.body) if answer.body else None
        assert failure is not None
        raise failure

    def _registered(self, id_: int, answer: Any) -> RegisteredSchema:
        references = tuple(read_reference(each) for each in answer.get("references") or ())
        resolved: dict[str, str] = {}
        self._resolve(references, resolved)
        schema = parse_schema(answer.get("schemaType") or AVRO, answer["schema"], references, resolved, validate=False)
        return RegisteredSchema(id_, answer.get("guid", ""), schema, answer.get("version"))

    def _resolve(self, references: Sequence[Reference], resolved: dict[str, str]) -> None:
        for reference in references:
            if reference.name not in resolved:
                path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}?deleted=true"
                answer = self.ask("GET", path)
                self._resolve([read_reference(each) for each in answer.get("references") or ()], resolved)
                resolved[reference.name] = answer["schema"]


class _Cache:
    """The schemas that were used last. Threads may share it."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._schemas: OrderedDict[tuple[Any, ...], RegisteredSchema] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[Any, ...]) -> RegisteredSchema | None:
        with self._lock:
            found = self._schemas.get(key)
            if found is not None:
                self._schemas.move_to_end(key)
            return found

    def put(self, key: tuple[Any, ...], schema: RegisteredSchema) -> RegisteredSchema:
        with self._lock:
            self._schemas[key] = schema
            self._schemas.move_to_end(key)
            while len(self._schemas) > self._capacity:
                self._schemas.popitem(last=False)
        return schema


def _refusal(answer: Answer) -> RegistryRefused:
    try:
        told = json.loads(answer.body)
        return RegistryRefused(told["error_code"], told["message"])
    except (ValueError, KeyError, TypeError):
        # Not a registry's: a proxy's, perhaps.
        return RegistryRefused(answer.status, answer.body[:200].decode(errors="replace") or "no reason given")


def _body(text: str, schema_type: str, references: Sequence[Reference]) -> dict[str, Any]:
    return {
        "schema": text,
        "schemaType": schema_type,
        "references": [reference._asdict() for reference in references],
    }
