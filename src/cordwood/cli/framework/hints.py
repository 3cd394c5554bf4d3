"""Adds the nearest names to a broker's errors about misspelled ones."""

import re
from collections.abc import Iterable

from cordwood.cli.framework.name_choice import NoSuchName
from cordwood.cli.terminal.output import warn
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigResourceType
from cordwood.client.errors import ClientError, TopicNotFound, UnsupportedByBroker

_UNKNOWN_SETTING = re.compile(r"Unknown (topic|group) config name: (\S+)")
_MISSING_API = re.compile(r"has no (\w+)")
_WITHOUT = {
    "Acls": "the brokers support no access control lists: every client that can connect may do everything",
    "ClientQuotas": "the brokers support no client quotas: no client is slowed down",
    "UserScramCredentials": "the brokers support no SASL, and keep no passwords of users",
    "DelegationToken": "the brokers support no delegation tokens",
}
_KINDS = {"topic": ConfigResourceType.TOPIC, "group": ConfigResourceType.GROUP}


async def explain_missing_topic(admin: Admin, error: TopicNotFound) -> ClientError:
    """Adds topics of a similar name to the error if the topic is missing (not just the partition)."""
    kind, _, name = (error.subject or "").partition(" ")
    try:
        known = await admin.list_topics(internal=True)
    except ClientError:
        return error
    return NoSuchName("topic", name, known) if kind == "topic" and name not in known else error


def explain(error: ClientError) -> str:
    """Returns the error's text, with the nearest name for an unknown setting, or an explanation if the broker lacks the
    request."""
    if isinstance(error, UnsupportedByBroker) and (missing := _MISSING_API.search(str(error))):
        for name, meaning in _WITHOUT.items():
            if name in missing[1]:
                return f"{meaning} (no {missing[1]})"
    unknown = _UNKNOWN_SETTING.search(str(error))
    hint = nearest_setting(_KINDS[unknown[1]], unknown[2]) if unknown is not None else None
    return f"{error}; did you mean {hint}?" if hint else str(error)


def warn_of_unknown_settings(kind: ConfigResourceType, names: Iterable[str]) -> None:
    """Warns about unknown names, which brokers accept silently when a topic's or group's setting is unset."""
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
    """The names that this version of Cordwood knows; none for loggers, whose names are free."""
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
