"""Values: read from their text as Kafka reads them, and spelled as Java spells them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import IntEnum

from cordwood.config.errors import InvalidValue


class Type(IntEnum):
    """A value's type; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


UNKNOWN_TYPE = 0


@dataclass(frozen=True, slots=True)
class Password:
    """A secret that does not end up in a log by being printed."""

    secret: str

    def __str__(self) -> str:
        return "[hidden]"

    __repr__ = __str__


Value = bool | int | float | str | tuple[str, ...] | Password | None


def parse(name: str, text: str, kind: Type) -> Value:
    """The value that `text` spells; raises InvalidValue in Kafka's words."""
    trimmed = text.strip(_JAVA_SPACE)
    match kind:
        case Type.BOOLEAN:
            return _boolean(name, text, trimmed)
        case Type.INT | Type.SHORT | Type.LONG:
            return _integer(name, text, trimmed, kind)
        case Type.DOUBLE:
            return _double(name, text, trimmed)
        case Type.LIST:
            return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()
        case Type.CLASS:
            return _class_name(name, text, trimmed)
        case Type.PASSWORD:
            return Password(trimmed)
        case Type.STRING:
            return trimmed


def spell(value: Value) -> str | None:
    """Formats a value like Java's toString, lists joined by commas; secrets in clear text."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return spell_double(value)
        case tuple():
            return ",".join(value)
        case Password(secret):
            return secret
        case int() | str():
            return str(value)


def spell_double(value: float) -> str:
    """Double.toString: plain from 10^-3 to 10^7, else one digit before the point and an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    from decimal import Decimal

    # Python's repr has the fewest digits that read back as the same number, as Java's (since 19) has.
    number = Decimal(repr(abs(value))).normalize()
    digits = "".join(map(str, number.as_tuple().digits))
    exponent = number.adjusted()
    if -3 <= exponent < 7:
        plain = format(number, "f")
        return sign + (plain if "." in plain else plain + ".0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


# The characters that Java's String.trim removes.
_JAVA_SPACE = "".join(map(chr, range(0x21)))
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_CLASS_NAME = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")


def _boolean(name: str, text: str, trimmed: str) -> bool:
    match trimmed.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise InvalidValue(name, text, "Expected value to be either true or false")


def _integer(name: str, text: str, trimmed: str, kind: Type) -> int:
    if _INTEGER.fullmatch(trimmed):
        # Leading zeros aside, no number of that size has more digits than this; int() refuses very long ones.
        digits = trimmed.lstrip("+-").lstrip("0")
        number = int(trimmed) if len(digits) <= 19 else None
        limit = 1 << (_BITS[kind] - 1)
        if number is not None and -limit <= number < limit:
            return number
    raise InvalidValue(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str, trimmed: str) -> float:
    if _HEX_DOUBLE.fullmatch(trimmed):
        return float.fromhex(trimmed.rstrip("fFdD"))
    if not _DOUBLE.fullmatch(trimmed):
        raise InvalidValue(name, text, "Not a number of type DOUBLE")
    bare = trimmed.rstrip("fFdD") if not trimmed.endswith(("NaN", "Infinity")) else trimmed
    return float(bare)


def _class_name(name: str, text: str, trimmed: str) -> str:
    # Kafka would load the class. There is none to load here, so only the name is looked at.
    if not _CLASS_NAME.fullmatch(trimmed):
        raise InvalidValue(name, text, f"Class {text} could not be found.")
    return trimmed
