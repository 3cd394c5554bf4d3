"""`cordwood schema export` and `import`: the contents of a registry as lines of JSON.

A line is a schema version (including softly deleted ones), a configuration or a mode, as `kind` says; a line without
one is a version, as in older exports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from cordwood.registry.client import RegistryClient, RegistryRefused

_NOT_CONFIGURED = (40401, 40408, 40409)
_NOT_IMPORTED = ("kind", "guid", "deleted")


def exported(client: RegistryClient) -> Iterator[dict[str, Any]]:
    """Returns configurations first, then versions ordered by id, so that references come first, then modes."""
    versions = client.ask("GET", "/schemas?subjectPrefix=:*:&deleted=true")
    subjects = sorted({each["subject"] for each in versions})
    scopes: list[str | None] = [
        None,
        *(f":{name}:" for name in client.ask("GET", "/contexts") if name != "."),
        *subjects,
    ]
    for scope in scopes:
        config = _own(client, "config", scope)
        if config:
            yield {"kind": "config", "subject": scope, "config": config}
    for each in sorted(versions, key=lambda version: (version["id"], version["version"])):
        yield {"kind": "schema", **each}
    for scope in scopes:
        mode = _own(client, "mode", scope)
        if mode and (scope is not None or mode["mode"] != "READWRITE"):
            yield {"kind": "mode", "subject": scope, "mode": mode["mode"]}


def imported(client: RegistryClient, lines: Sequence[dict[str, Any]]) -> int:
    """Registers versions with their original ids and version numbers, and returns how many. A subject's own mode is
    restored, or set to that of the export."""
    versions = [line for line in lines if line.get("kind", "schema") == "schema"]
    wanted = {line["subject"]: line["mode"] for line in lines if line.get("kind") == "mode"}
    subjects = sorted({each["subject"] for each in versions})
    before = {subject: _own(client, "mode", subject) for subject in subjects}
    begun: list[str] = []
    try:
        for subject in subjects:
            client.ask("PUT", f"{_path('mode', subject)}?force=true", {"mode": "IMPORT"})
            begun.append(subject)
        for each in versions:
            body = {name: value for name, value in each.items() if name not in _NOT_IMPORTED}
            client.ask("POST", f"/subjects/{quote(each['subject'], safe='')}/versions", body)
        # In reverse order, so that referring versions are deleted first.
        for each in reversed(versions):
            if each.get("deleted"):
                client.ask("DELETE", f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}")
    finally:
        for subject in begun:
            own = before[subject]
            if own is None:
                _forget_mode(client, subject)
            else:
                client.ask("PUT", f"{_path('mode', subject)}?force=true", own)
    for line in lines:
        if line.get("kind") == "config":
            client.ask("PUT", _path("config", line["subject"]), _as_sent(line["config"]))
    for subject, mode in wanted.items():
        client.ask("PUT", f"{_path('mode', subject)}?force=true", {"mode": mode})
    return len(versions)


def _forget_mode(client: RegistryClient, subject: str) -> None:
    try:
        client.ask("DELETE", _path("mode", subject))
    except RegistryRefused as error:
        # Deleting the last version of a subject deletes its mode too.
        if error.code not in _NOT_CONFIGURED:
            raise


def _own(client: RegistryClient, what: str, subject: str | None) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = client.ask("GET", _path(what, subject))
    except RegistryRefused as error:
        if error.code in _NOT_CONFIGURED:
            return None
        raise
    return found


def _path(what: str, subject: str | None) -> str:
    return f"/{what}" if subject is None else f"/{what}/{quote(subject, safe='')}"


def _as_sent(config: dict[str, Any]) -> dict[str, Any]:
    """Converts a schema to its form in requests."""
    sent = dict(config)
    if "compatibilityLevel" in sent:
        sent["compatibility"] = sent.pop("compatibilityLevel")
    return sent
