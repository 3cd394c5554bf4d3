"""Configuration and mode as they hold for a subject: its own, then its context's, then the registry's."""

from __future__ import annotations

from cordwood.registry.schemas.compatibility import Level, Policy

from .records import Json
from .state import State
from .subjects import DEFAULT_CONTEXT, GLOBAL, Subject

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
DEFAULT_CONFIG: Json = {"compatibilityLevel": "BACKWARD"}


def key_of(subject: Subject | None) -> str | None:
    """The key of a subject's configuration and mode; None is the registry as a whole."""
    if subject is None or (subject.is_context and subject.context == DEFAULT_CONTEXT):
        return None
    return f":{subject.context}:" if subject.is_context else subject.qualified


def _keys(subject: Subject) -> list[str | None]:
    keys: list[str | None] = [None]
    if subject.context != DEFAULT_CONTEXT:
        keys += [f":{subject.context}:{GLOBAL}", f":{subject.context}:"]
    return keys if subject.is_context else [*keys, subject.qualified]


def config_in_scope(state: State, subject: Subject) -> Json:
    merged = dict(DEFAULT_CONFIG)
    for key in _keys(subject):
        found = state.configs.get(key, {})
        merged |= {name: value for name, value in found.items() if value is not None and name != "subject"}
    return merged


def mode_in_scope(state: State, subject: Subject) -> str:
    everywhere = state.modes.get(None)
    if everywhere == "READONLY_OVERRIDE":
        return everywhere
    for key in reversed(_keys(subject)):
        if key in state.modes:
            return state.modes[key]
    return "READWRITE"


def level_of(config: Json) -> Level:
    return Level(config["compatibilityLevel"])


def policy_of(config: Json) -> Policy:
    return Policy(config.get("compatibilityPolicy", "STRICT"))
