"""Converts client properties from files and variables to client settings.

A property file is what Kafka's tools take with --command-config: `bootstrap.servers`, `security.protocol`, `ssl.…` and
so on, in the syntax of java.util.Properties.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from cordwood.cli.terminal.output import warn
from cordwood.client.addresses import DEFAULT_BOOTSTRAP
from cordwood.client.errors import BadSetting
from cordwood.client.options.configuration import NoEffectWarning, other_clients_settings, read_settings
from cordwood.client.settings import Settings
from cordwood.config.properties import BadProperties, parse_properties

S = TypeVar("S", bound=Settings)


class PropertyLayer(NamedTuple):
    """Properties by Kafka's names, and where they were given: a file, a profile, an option."""

    origin: str
    properties: Mapping[str, str]


def read_property_file(path: str, origin: str | None = None) -> PropertyLayer:
    """Raises `BadSetting`."""
    try:
        return PropertyLayer(origin or path, parse_properties(_text(path)))
    except OSError as error:
        raise BadSetting(f"{origin or path}: {error.strerror}") from error
    except (BadProperties, UnicodeDecodeError) as error:
        raise BadSetting(f"{origin or path} is not a file of properties: {error}") from error


def settings_from(
    kind: type[S],
    layers: Sequence[PropertyLayer],
    defaults: Mapping[str, Any],
    tell: Callable[[str], None] = warn,
) -> S:
    """Merges the layers, the first with the highest precedence; `defaults` apply to settings that none of them names.

    Ignores properties of other kinds of clients (`acks` for a consumer). An unknown property is an error; properties
    without effect are reported to `tell`. Raises `BadSetting`.
    """
    merged = {name: value for layer in reversed(layers) for name, value in layer.properties.items()}
    origins = {name: layer.origin for layer in reversed(layers) for name in layer.properties}
    others = other_clients_settings(kind)
    given = {name: value for name, value in merged.items() if name.replace(".", "_") not in others}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoEffectWarning)
        try:
            settings = read_settings(kind, {"bootstrap.servers": DEFAULT_BOOTSTRAP} | given, {})
        except BadSetting as error:
            raise BadSetting(_placed(str(error), origins)) from error
    for warning in caught:
        tell(_placed(str(warning.message), origins))
    told = {name.replace(".", "_") for name in given}
    return replace(settings, **{name: value for name, value in defaults.items() if name not in told})


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _placed(text: str, origins: Mapping[str, str]) -> str:
    """Adds to the message where the property was given, under the name with which it was given. Of several names the
    message is about the first; another may be a suggestion. And one name may begin another."""
    found = [
        (text.index(spelled), -len(name), origin)
        for name, origin in origins.items()
        for spelled in (name, name.replace(".", "_"))
        if spelled in text
    ]
    return f"{min(found)[2]}: {text}" if found else text
