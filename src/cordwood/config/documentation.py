"""What a client is told of a key that asks for its documentation: what may stand there, and what goes by it here."""

from __future__ import annotations

from cordwood.config.definition import Definition, ResourceType
from cordwood.config.definitions.client_metrics import CLIENT_METRICS
from cordwood.config.definitions.group import GROUP
from cordwood.config.definitions.topic import TOPIC
from cordwood.config.effects import SECTIONS, Effect, Rule
from cordwood.config.keys import base_of, definition_of

_EFFECTS = {
    Effect.WORKS: "Goes for: {note}.",
    Effect.LATER: "Has no effect yet; it is to go for: {note}.",
    Effect.NEVER: "Has no effect here: {note}.",
    Effect.REFUSED: "Only the default is accepted: {note}.",
}


def documentation_of(resource_type: int, name: str) -> str | None:
    """None for a key that nobody knows."""
    definition = _definition(resource_type, name)
    if definition is None:
        return None
    rule = _rule_of(definition)
    return f"{definition.allowed[0].upper()}{definition.allowed[1:]}. {_EFFECTS[rule.effect].format(note=rule.note)}"


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
