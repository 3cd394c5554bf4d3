"""Bodies of responses, and their content type."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from cordwood.registry.state.errors import RegistryError
from cordwood.registry.state.records import Json, SchemaVersion

from .requests import number

Item = TypeVar("Item")

V1 = "application/vnd.schemaregistry.v1+json"
_OFFERED = (V1, "application/vnd.schemaregistry+json", "application/json")


def content_type(request: Request) -> str:
    """The best that the client takes. Raises `RegistryError` if it takes none."""
    accepted = request.headers.get("accept")
    if not accepted:
        return V1
    best, quality = None, 0.0
    for part in accepted.split(","):
        media, *parameters = [each.strip().lower() for each in part.split(";")]
        offered = _match(media)
        if offered is None:
            continue
        own = 1.0
        for each in parameters:
            if each.startswith("q="):
                own = _quality(each[2:])
        if own > quality:
            best, quality = offered, own
    if best is None:
        raise RegistryError(406, f"HTTP 406 Not Acceptable: this is {V1}")
    return best


def _match(media: str) -> str | None:
    if media in ("*/*", "application/*"):
        return V1
    return media if media in _OFFERED else None


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def page(request: Request, found: list[Item]) -> list[Item]:
    """Selects a page by the parameters `offset` and `limit`."""
    offset, limit = max(0, number(request, "offset", 0)), number(request, "limit", -1)
    return found[offset:] if limit < 0 else found[offset : offset + limit]


def respond(request: Request, value: Any, status: int = 200) -> Response:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return Response(body, status, headers={"content-type": content_type(request)})


def error_response(error: RegistryError) -> Response:
    # In ASCII: the message may quote what no UTF-8 has.
    body = json.dumps({"error_code": error.code, "message": error.message}).encode()
    return Response(body, error.status, headers={"content-type": V1})


def version_body(version: SchemaVersion, text: str | None = None) -> Json:
    """The response for a subject's version."""
    body: Json = {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        **schema_body(version, text),
    }
    if version.is_deleted:
        body["deleted"] = True
    return body


def schema_body(version: SchemaVersion, text: str | None = None) -> Json:
    body: Json = {"guid": version.guid, "schemaType": version.schema_type}
    if version.references:
        body["references"] = [reference._asdict() for reference in version.references]
    if version.metadata is not None:
        body["metadata"] = version.metadata
    if version.rule_set is not None:
        body["ruleSet"] = version.rule_set
    return body | {"schema": version.text if text is None else text}
