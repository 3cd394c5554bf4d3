"""Adds the nearest names to a broker's errors about misspelled ones."""

import re
from collections.abc import Iterable

from cordwood.cli.framework.name_choice import NoSuchName
from cordwood.cli.terminal.output import warn
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigResourceType
from cordwood.client.errors import ClientError, TopicNotFound

_UNKNOWN_SETTING = re.compile(r"Unknown (topic|group) config name: (\S+)")
_KINDS = {"topic": ConfigResourceType.TOPIC, "group": ConfigResourceType.GROUP}


async def explain_missing_topic(admin: Admin, error: TopicNotFound) -> ClientError:
    """The same error with topics of a similar name, if it is a topic that is missing and not one of its partitions."""
    kind, _, name = (error.subject or "").partition(" ")
    try:
        known = await admin.list_topics(internal=True)
    except ClientError:
        return error
    return NoSuchName("topic", name, known) if kind == "topic" and name not in known else error


def explain(error: ClientError) -> str:
    """The text of an error, with the nearest name where a setting is unknown."""
    unknown = _UNKNOWN_SETTING.search(str(error))
    hint = nearest_setting(_KINDS[unknown[1]], unknown[2]) if unknown is not None else None
    return f"{error}; did you mean {hint}?" if hint else str(error)


def warn_of_unknown_settings(kind: ConfigResourceType, names: Iterable[str]) -> None:
    """Brokers take it without a word when a setting of a topic or group is unset that nobody knows."""
    if kind in _KINDS.values():
        known = setting_names(kind)
        for name in names:
            if name not in known:
                near = nearest_setting(kind, name)
                warn(f"{kind.name.lower()}s have no setting {name}" + (f"; did you mean {near}?" if near else ""))


def nearest_setting(kind: ConfigResourceType, name: str) -> str | None:
    from cordwood.config.errors import nearest

    return nearest(name, setting_names(kind))


def setting_names(kind: ConfigResourceType) -> list[str]:
    """Those that this version of Cordwood knows; none of loggers, which have names of their own."""
    from cordwood.config.definitions.broker import BROKER
    from cordwood.config.definitions.client_metrics import CLIENT_METRICS
    from cordwood.config.definitions.group import GROUP
    from cordwood.config.definitions.topic import TOPIC

    definitions = {
        ConfigResourceType.TOPIC: TOPIC,
        ConfigResourceType.BROKER: BROKER,
        ConfigResourceType.GROUP: GROUP,
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
    }
    return [name for name, definition in definitions.get(kind, {}).items() if not definition.internal]
