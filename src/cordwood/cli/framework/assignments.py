"""`name=value` on the command line."""

import re
from collections.abc import Sequence

import typer

from cordwood.client.admin.configs import AlterOperation, ConfigChange

_OPERATIONS = {"=": AlterOperation.SET, "+=": AlterOperation.APPEND, "-=": AlterOperation.SUBTRACT}
_CHANGE = re.compile(r"([^=]*[^=+-])([+-]?=)(.*)", re.DOTALL)


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parses `name=value` items. Raises `typer.BadParameter`."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def parse_changes(texts: Sequence[str], option: str) -> list[ConfigChange]:
    """`name=value` sets, `name+=item` and `name-=item` add to and take from a list."""
    return [_parse_change(text, option) for text in texts]


def _parse_change(text: str, option: str) -> ConfigChange:
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE, NAME+=ITEM or NAME-=ITEM", param_hint=option)
    return ConfigChange(match[1], _OPERATIONS[match[2]], match[3])
