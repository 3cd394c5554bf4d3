"""Reads settings from keywords, or from a mapping with Kafka's dotted names.

>>> read_settings(ProducerSettings, {"linger.ms": "20"}, {"acks": "all"})

An unknown name is an error that suggests the nearest known one; so is a value of the wrong type or out of range.
Settings of Kafka's clients without effect here are refused, or cause a warning.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, get_type_hints

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.client.options.checks import completed
from cordwood.client.options.foreign import HINTS, NO_EFFECT, refused
from cordwood.client.options.security import Security, client_tls
from cordwood.client.options.values import Given, read_value
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import Settings

S = TypeVar("S", bound=Settings)

# Kafka's name -> ours, where Kafka's would mean something else in Python.
_ALIASES = {"interceptor_classes": "interceptors", "partitioner_class": "partitioner"}
_COMPRESSION_LEVELS = {f"compression_{codec}_level": codec for codec in ("gzip", "lz4", "zstd")}

# Stack levels from a warning to the caller of the constructor.
_STACK_LEVEL = 4


class NoEffectWarning(UserWarning):
    """A setting of Kafka's clients that has no effect here."""


def read_settings(kind: type[S], options: Mapping[str, object] | None, keywords: Mapping[str, object]) -> S:
    """Raises `BadSetting`."""
    given = _gather(options or {}, keywords)
    known = setting_names(kind)
    values: dict[str, Any] = {}
    security: dict[str, Any] = {}
    levels: dict[str, Any] = {}
    for name, setting in given.items():
        if name in _SECURITY_TYPES:
            security[name] = read_value(setting, name, _SECURITY_TYPES[name])
        elif name in _COMPRESSION_LEVELS and "compression_level" in known:
            levels[_COMPRESSION_LEVELS[name]] = read_value(setting, name, int)
        elif name in known:
            values[name] = read_value(setting, name, known[name])
        else:
            _meet_unused(setting, name, known)
    if (level := levels.get(values.get("compression_type", "none"))) is not None:
        values.setdefault("compression_level", level)
    if not values.get("bootstrap_servers"):
        raise BadSetting('bootstrap_servers is empty; expected "host:port", or several separated by commas')
    values["tls"] = client_tls(Security(**security))
    if values["tls"] is None and (unused := sorted(name for name in security if name != "security_protocol")):
        _warn(f"{', '.join(unused)}: no effect, because security_protocol is PLAINTEXT; should it be SSL?")
    return completed(kind(**values), given.keys())


def split_topics(
    given: Sequence[str | Mapping[str, object]], options: Mapping[str, object] | None
) -> tuple[list[str], Mapping[str, object] | None]:
    """Splits a consumer's positional arguments: topic names, or the options first, as in other clients."""
    if given and isinstance(given[0], Mapping):
        if options is not None:
            raise BadSetting("options are given twice")
        options, given = given[0], given[1:]
    topics = [topic for topic in given if isinstance(topic, str)]
    if len(topics) < len(given):
        raise BadSetting(f"topics are {given!r}; expected one or more str")
    return topics, options


def setting_names(kind: type[Settings]) -> dict[str, Any]:
    """Returns the settings of this kind of client with their types, except security."""
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind) if field.name != "tls"}


def other_clients_settings(kind: type[Settings]) -> set[str]:
    """Returns settings of producers or consumers that this kind of client lacks."""
    names = {*setting_names(ProducerSettings), *_COMPRESSION_LEVELS, *_ALIASES, *setting_names(ConsumerSettings)}
    known = setting_names(kind)
    has_levels = "compression_level" in known
    return {name for name in names if name not in known and not (has_levels and name in _COMPRESSION_LEVELS)} - {
        alias for alias, name in _ALIASES.items() if name in known
    }


_SECURITY_TYPES: Mapping[str, Any] = get_type_hints(Security)


def _gather(options: Mapping[str, object], keywords: Mapping[str, object]) -> dict[str, Given]:
    """Returns the values by our names, with the spelling that was used."""
    given: dict[str, Given] = {}
    for spelled, value in [*options.items(), *keywords.items()]:
        if not isinstance(spelled, str):
            raise BadSetting(f"{spelled!r} is not a setting")
        name = spelled.replace(".", "_")
        name = _ALIASES.get(name, name)
        if name in given:
            other = given[name].spelled
            how = f"both as {other} and as {spelled}" if other != spelled else "twice"
            raise BadSetting(f"{spelled} is given {how}")
        given[name] = Given(spelled, value)
    return given


def _meet_unused(setting: Given, name: str, known: Mapping[str, Any]) -> None:
    if (unwanted := refused(name)) is not None:
        if setting.value not in unwanted.harmless:
            raise BadSetting(f"{setting.spelled}: {unwanted.reason}")
    elif (ignored := NO_EFFECT.get(name)) is not None:
        if setting.value not in ignored.harmless:
            _warn(f"{setting.spelled} has no effect: {ignored.reason}")
    else:
        _refuse_unknown(setting, name, known)


def _refuse_unknown(setting: Given, name: str, known: Mapping[str, Any]) -> NoReturn:
    if (hint := HINTS.get(name)) is not None:
        raise BadSetting(f"there is no setting {setting.spelled}: {hint}")
    for kind, whose in ((ProducerSettings, "a producer"), (ConsumerSettings, "a consumer")):
        if name in setting_names(kind):
            raise BadSetting(f"{setting.spelled} is a setting of {whose}")
    names = [*known, *_SECURITY_TYPES, *_COMPRESSION_LEVELS, *_ALIASES]
    nearest = get_close_matches(name, names, n=1)
    if not nearest:
        raise BadSetting(f"there is no setting {setting.spelled}; docs/client-configuration.md lists all settings")
    like = nearest[0].replace("_", ".") if "." in setting.spelled else nearest[0]
    raise BadSetting(f"there is no setting {setting.spelled}; is it {like}?")


def _warn(text: str) -> None:
    warnings.warn(text, NoEffectWarning, stacklevel=_STACK_LEVEL)
