"""Rules for a single value, each with Kafka's check, Kafka's complaint and, as its text, Kafka's way to state it."""

from __future__ import annotations

import math
import re
from typing import NamedTuple, Protocol

from cordwood.config.errors import ConfigError, InvalidValue
from cordwood.config.validation.values import Value, spell


class Validity(Protocol):
    def check(self, name: str, value: Value) -> None:
        """Raises ConfigError if `value`, which has the right type, is not allowed."""

    def __str__(self) -> str:
        """The allowed values."""


class Range(NamedTuple):
    least: float
    most: float | None = None
    # A value outside that is allowed as well.
    also: int | None = None

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, int | float):
            raise InvalidValue(name, value, "Value must be non-null")
        if value == self.also:
            return
        if self.also is not None and not (self.least <= value <= (self.most or math.inf)):
            reason = f"Value must be between {self.least} and {self.most} or equal to {self.also}"
            raise InvalidValue(name, spell(value), reason)
        # Kafka accepts NaN, because of Java's comparison; no component could use it.
        if value < self.least or math.isnan(value):
            raise InvalidValue(name, spell(value), f"Value must be at least {self.least}")
        if self.most is not None and value > self.most:
            raise InvalidValue(name, spell(value), f"Value must be no more than {self.most}")

    def __str__(self) -> str:
        span = f"[{self.least},...]" if self.most is None else f"[{self.least},...,{self.most}]"
        return span if self.also is None else f"{span} or {self.also}"


class OneOf(NamedTuple):
    allowed: tuple[str, ...]

    def check(self, name: str, value: Value) -> None:
        if value not in self.allowed:
            raise InvalidValue(name, value, f"String must be one of: {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]"


class OneOfInAnyCase(NamedTuple):
    allowed: tuple[str, ...]

    def check(self, name: str, value: Value) -> None:
        if str(value).upper() not in self.allowed:
            raise InvalidValue(name, value, f"String must be one of (case insensitive): {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self.allowed)}]"


class Distinct(NamedTuple):
    """A list without empty entries, restricted to `allowed` if given; the first of repeated entries counts."""

    allowed: tuple[str, ...] = ()
    may_be_empty: bool = True
    may_be_null: bool = False

    def check(self, name: str, value: Value) -> None:
        if value is None:
            if not self.may_be_null:
                raise ConfigError(f"Configuration '{name}' values must not be null.")
            return
        if not isinstance(value, tuple):
            raise InvalidValue(name, value, "Expected a comma separated list.")
        if not value and not self.may_be_empty:
            options = str(OneOf(self.allowed)) if self.allowed else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {options}")
        if not all(value):
            raise ConfigError(f"Configuration '{name}' values must not be empty.")
        if self.allowed:
            for item in value:
                OneOf(self.allowed).check(name, item)

    def __str__(self) -> str:
        entries = f"of {OneOf(self.allowed)}" if self.allowed else "none of them blank"
        return entries if self.may_be_empty else f"{entries}, at least one"


class NonEmptyString:
    def check(self, name: str, value: Value) -> None:
        if value == "":
            raise InvalidValue(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonNullString:
    def check(self, name: str, value: Value) -> None:
        if value is None:
            raise InvalidValue(name, "null", "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class Addresses(NamedTuple):
    """host:port entries, with `id@` before them where they name voters."""

    with_ids: bool = False

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, tuple):
            raise InvalidValue(name, value, "Expected a comma separated list.")
        pattern, form = (_VOTER, "{id}@{host}:{port}") if self.with_ids else (_ADDRESS, "{host}:{port}")
        for entry in value:
            if not pattern.fullmatch(entry) or int(entry.rpartition(":")[2]) > 65535:
                raise InvalidValue(name, entry, f"Each entry should be in the form `{form}`.")

    def __str__(self) -> str:
        return "non-empty list"


class ThrottledReplicas:
    def check(self, name: str, value: Value) -> None:
        items = value if isinstance(value, tuple) else ()
        if not all(_REPLICA.fullmatch(item) for item in items) and "".join(items) != "*":
            reason = f"{name} must be the literal '*' or a list of replicas in the following format: {self}"
            raise InvalidValue(name, f"[{', '.join(items)}]", reason)

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class OffsetReset(NamedTuple):
    """The start of a share group: a word, or `by_duration:` and a duration in ISO 8601."""

    words: tuple[str, ...]

    def check(self, name: str, value: Value) -> None:
        text = str(value)
        if text in self.words:
            return
        start, _, duration = text.partition(":")
        if start != "by_duration" or not _DURATION.fullmatch(duration) or duration[-1:] in ("P", "T"):
            words = ", ".join(f"'{word}'" for word in sorted(self.words))
            reason = (
                f"Invalid value `{text}` for configuration {name}. The value must be either {words} or of the format "
                "'by_duration:<PnDTnHnMn.nS>'."
            )
            raise InvalidValue(name, value, reason)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}, by_duration:PnDTnHnMn.nS]"


_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^\s,:@\[\]]+):[0-9]{1,5}")
_VOTER = re.compile(r"[0-9]+@" + _ADDRESS.pattern)
_REPLICA = re.compile(r"(?:[0-9]+:[0-9]+)?")
_DURATION = re.compile(r"P(?:[0-9]+D)?(?:T(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?")
