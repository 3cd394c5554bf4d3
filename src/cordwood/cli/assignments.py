"""`name=value` on the command line."""

from collections.abc import Sequence

import typer

from cordwood.client.admin.configs import AlterOperation, ConfigChange

# The longer ones first: "a+=b" is no assignment of "a+".
_OPERATORS = {"+=": AlterOperation.APPEND, "-=": AlterOperation.SUBTRACT, "=": AlterOperation.SET}


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """`name=value` of each. Raises `typer.BadParameter`."""
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
    position = text.find("=")
    for operator, operation in _OPERATORS.items():
        start = position + 1 - len(operator)
        if position > 0 and start > 0 and text.startswith(operator, start):
            return ConfigChange(text[:start], operation, text[position + 1 :])
    raise typer.BadParameter(f"{text!r} is not NAME=VALUE, NAME+=ITEM or NAME-=ITEM", param_hint=option)
