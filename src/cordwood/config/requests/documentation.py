"""Documentation of a key for DescribeConfigs: its effect, its default, the allowed values, and when a change takes
effect."""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.config.definition import Definition, ResourceType, UpdateMode
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.effects import SECTIONS, Effect, Rule
from cordwood.config.keys import base_of, definition_of
from cordwood.config.validation.validity import Distinct, OneOf, OneOfInAnyCase, Range
from cordwood.config.validation.values import Type

_CHANGES = {
    UpdateMode.READ_ONLY: "Takes effect when the node is restarted.",
    UpdateMode.PER_BROKER: "Takes effect at once, and can be changed for one broker at a time.",
    UpdateMode.CLUSTER_WIDE: "Takes effect at once, and can be changed for one broker or for all.",
    UpdateMode.PER_TOPIC: "Takes effect at once.",
    UpdateMode.PER_GROUP: "Takes effect at once.",
}
# Kafka changes these while it runs. Here a listener is created at the node's start, before dynamic settings are known.
_READ_AT_START = ("listener",)
_AT_START = "Takes effect when the node is restarted, if it is set in the node's file, environment or options."
_TYPES = {Type.INT: "a 32-bit number", Type.SHORT: "a 16-bit number", Type.LONG: "a 64-bit number"}
_TIMES_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_SIZES_BYTES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


def documentation_of(resource_type: int, name: str) -> str | None:
    """Returns None for an unknown key."""
    definition = _definition(resource_type, name)
    if definition is None:
        return None
    rule = _rule_of(definition)
    return " ".join(
        [
            *_description(resource_type, definition.name, rule),
            f"Default: {_default_of(definition)}.",
            f"Allowed: {_allowed_by(definition)}.",
            _takes_effect(definition, rule),
        ]
    )


def _description(resource_type: int, name: str, rule: Rule) -> list[str]:
    description = description_of(resource_type, name)
    if description is None and rule.effect is not Effect.NEVER:
        description = f"For {rule.note}."
    return [] if description is None else [description]


def description_of(resource_type: int, name: str) -> str | None:
    """Returns the description of a key. A broker's key that is the default of a topic's key falls back to the topic
    key's."""
    # Imported on first use: starting a node does not need it.
    from cordwood.config.descriptions.broker import BROKER_DESCRIPTIONS
    from cordwood.config.descriptions.group import CLIENT_METRICS_DESCRIPTIONS, GROUP_DESCRIPTIONS
    from cordwood.config.descriptions.topic import TOPIC_DESCRIPTIONS

    descriptions: Mapping[int, Mapping[str, str]] = {
        ResourceType.TOPIC: TOPIC_DESCRIPTIONS,
        ResourceType.GROUP: GROUP_DESCRIPTIONS,
        ResourceType.CLIENT_METRICS: CLIENT_METRICS_DESCRIPTIONS,
        ResourceType.BROKER: BROKER_DESCRIPTIONS,
    }
    if name in descriptions.get(resource_type, {}):
        return descriptions[resource_type][name]
    if resource_type == ResourceType.BROKER:
        for key, definition in TOPIC.items():
            if name in (synonym.name for synonym in definition.broker_synonyms):
                return f"The default of {key} for topics. {TOPIC_DESCRIPTIONS[key]}"
    return None


def _definition(resource_type: int, name: str) -> Definition | None:
    match resource_type:
        case ResourceType.TOPIC:
            return TOPIC.get(name)
        case ResourceType.GROUP:
            return GROUP.get(name)
        case ResourceType.CLIENT_METRICS:
            return CLIENT_METRICS.get(name)
        case ResourceType.BROKER:
            return definition_of(name) or definition_of(base_of(name) or name)
        case _:
            return None


def _rule_of(definition: Definition) -> Rule:
    section = next(section for section in SECTIONS if section.definitions.get(definition.name) is definition)
    return section.rule_of(definition.name)


def _default_of(definition: Definition) -> str:
    if definition.required:
        return "none; it must be set"
    text = definition.default_spelling
    told = "none" if text is None else f"{text}{_in_larger_units(definition)}" if text else "empty"
    if not definition.broker_synonyms:
        return told
    fallbacks = " or ".join(synonym.name for synonym in definition.broker_synonyms)
    return f"the broker's {fallbacks}; if that is not set, {told}"


def _in_larger_units(definition: Definition) -> str:
    """Formats a round number in larger units: " (7 days)"."""
    name, value = definition.name, definition.default
    if not isinstance(value, int) or value <= 0:
        return ""
    units: Mapping[str, int] = {}
    if name.endswith((".ms", ".millis")):
        units = _TIMES_MS
    elif ".bytes" in name or name.endswith(".size"):
        units = _SIZES_BYTES
    unit = next((unit for unit, size in units.items() if value % size == 0), None)
    if unit is None:
        return ""
    count = value // units[unit]
    return f" ({count} {unit.removesuffix('s') if count == 1 else unit})"


def _allowed_by(definition: Definition) -> str:
    match definition.valid:
        case Range(least, most, also):
            span = f"at least {least}" if most is None else f"{least} to {most}"
            kind = _TYPES.get(definition.type, "a number")
            return f"{kind}, {span}" + (f", or {also}" if also is not None else "")
        case OneOf(words) | OneOfInAnyCase(words):
            return ", ".join(words)
        case Distinct(words) if words:
            return f"a comma-separated list of {', '.join(words)}"
        case _:
            return definition.allowed


def _takes_effect(definition: Definition, rule: Rule) -> str:
    match rule.effect:
        case Effect.WORKS:
            return _AT_START if definition.name.startswith(_READ_AT_START) else _CHANGES[definition.update]
        case Effect.LATER:
            return "Has no effect in Cordwood yet."
        case Effect.NEVER:
            return f"Has no effect in Cordwood: {rule.note}."
        case Effect.REFUSED:
            return f"Only the default is accepted in Cordwood yet: {rule.note}."
