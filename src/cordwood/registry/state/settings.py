"""Changing configuration and modes."""

from __future__ import annotations

from typing import Any

from cordwood.registry.schemas.compatibility import Level, Policy

from .errors import RegistryError, not_permitted, subject_not_found
from .records import Json, Record, subject_key
from .scope import MODES, key_of
from .state import State
from .subjects import Subject

_NAMES = (
    *("alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules"),
    *("compatibilityLevel", "compatibilityPolicy", "compatibilityGroup"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)


def update_config(state: State, subject: Subject | None, request: Json) -> tuple[list[Record], Json]:
    """Returns the records and the new settings. Raises `RegistryError`. A null value resets a setting; others stay."""
    key = key_of(subject)
    changes = {name: request[name] for name in _NAMES if name in request}
    if "compatibility" in request:
        changes["compatibilityLevel"] = request["compatibility"]
    _checked(changes)
    merged = {**state.configs.get(key, {}), **changes}
    merged = {name: value for name, value in merged.items() if value is not None and name != "subject"}
    value = merged if key is None else {"subject": key, **merged}
    return [Record(subject_key("CONFIG", key), value)], merged


def _checked(changes: Json) -> None:
    level = changes.get("compatibilityLevel")
    if level is not None:
        text = str(level).upper()
        if text not in Level.__members__:
            raise RegistryError(
                42203,
                f"Invalid compatibility level {str(level)[:50]!r}. Valid values are {', '.join(Level.__members__)}",
            )
        changes["compatibilityLevel"] = text
    policy = changes.get("compatibilityPolicy")
    if policy is not None and str(policy) not in Policy.__members__:
        raise RegistryError(42203, f"Invalid compatibility policy {str(policy)[:50]!r}: STRICT or LENIENT")
    for name, kind in (("normalize", bool), ("alias", str), ("compatibilityGroup", str)):
        if changes.get(name) is not None and not isinstance(changes[name], kind):
            raise RegistryError(422, f"{name} must be a {'boolean' if kind is bool else 'string'}")
    for name in ("defaultMetadata", "overrideMetadata"):
        check_metadata(changes.get(name))
    for name in ("defaultRuleSet", "overrideRuleSet"):
        check_rule_set(changes.get(name))


def check_metadata(metadata: Any) -> None:
    """Raises `RegistryError`."""
    if metadata is None:
        return
    is_fine = isinstance(metadata, dict)
    if is_fine:
        tags, properties = metadata.get("tags") or {}, metadata.get("properties") or {}
        sensitive = metadata.get("sensitive") or []
        is_fine = (
            isinstance(tags, dict)
            and all(_are_texts(each) for each in tags.values())
            and isinstance(properties, dict)
            and _are_texts(list(properties.values()))
            and _are_texts(sensitive)
        )
    if not is_fine:
        raise RegistryError(
            42201, "Invalid metadata: tags are lists of strings, properties are strings, sensitive is a list of strings"
        )


def check_rule_set(rule_set: Any) -> None:
    """Raises `RegistryError`."""
    if rule_set is None:
        return
    if not isinstance(rule_set, dict):
        raise RegistryError(42210, "Invalid rule set: it must be an object")
    names: set[str] = set()
    for group in ("migrationRules", "domainRules", "encodingRules"):
        rules = rule_set.get(group)
        if rules is None:
            continue
        if not isinstance(rules, list):
            raise RegistryError(42210, f"Invalid rule set: {group} must be a list of rules")
        for rule in rules:
            _check_rule(rule, names)


def _check_rule(rule: Any, names: set[str]) -> None:
    if not isinstance(rule, dict) or not isinstance(rule.get("name"), str) or not rule["name"]:
        raise RegistryError(42210, "Invalid rule set: every rule has a name")
    if rule["name"] in names:
        raise RegistryError(42210, f"Invalid rule set: found rule with duplicate name '{rule['name']}'")
    names.add(rule["name"])
    for text in ("doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure"):
        if rule.get(text) is not None and not isinstance(rule[text], str):
            raise RegistryError(42210, f"Invalid rule set: {text} of rule '{rule['name']}' must be a string")
    if not _are_texts(rule.get("tags") or []) or not isinstance(rule.get("params") or {}, dict):
        raise RegistryError(42210, f"Invalid rule set: tags are strings and params an object in rule '{rule['name']}'")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def delete_config(state: State, subject: Subject | None) -> tuple[list[Record], Json]:
    """Returns the records and the previous settings. Raises `RegistryError`."""
    key = key_of(subject)
    known = state.configs.get(key)
    if known is None:
        if key is None:
            return [], {"compatibilityLevel": "BACKWARD"}
        raise subject_not_found(key)
    shown = {name: value for name, value in known.items() if name != "subject"}
    return [Record(subject_key("CONFIG", key), None)], shown


def update_mode(state: State, subject: Subject | None, mode: Any, *, force: bool) -> list[Record]:
    """Raises `RegistryError`."""
    key = key_of(subject)
    text = str(mode).upper()
    if text not in MODES:
        raise RegistryError(42204, f"Invalid mode {str(mode)[:50]!r}. Valid values are {', '.join(MODES)}")
    if text == "IMPORT" and state.modes.get(key) != "IMPORT" and not force and _has_schemas(state, subject):
        raise not_permitted("Cannot import since found existing subjects; use force=true to import over them")
    value: Json = {"subject": key, "mode": text} if key is not None else {"mode": text}
    return [Record(subject_key("MODE", key), value)]


def _has_schemas(state: State, subject: Subject | None) -> bool:
    if subject is not None and not subject.is_context:
        return bool(state.versions(subject.qualified))
    prefix = "" if key_of(subject) is None else f":{subject.context}:" if subject is not None else ""
    return any(name.startswith(prefix) and state.versions(name) for name in state.subjects)


def delete_mode(state: State, subject: Subject | None) -> tuple[list[Record], str]:
    """Records, and the mode that was set. Raises `RegistryError`."""
    key = key_of(subject)
    known = state.modes.get(key)
    if known is None:
        if key is None:
            return [], "READWRITE"
        raise subject_not_found(key)
    return [Record(subject_key("MODE", key), None)], known
