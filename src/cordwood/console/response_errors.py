"""Finds the error codes in a response, wherever its schema has them."""

from __future__ import annotations

from functools import cache
from typing import Any

from cordwood.wire.schema import Response, StructType

_FIELD = "error_code"


class _Plan:
    """The fields of a struct that contain error codes, directly or nested."""

    __slots__ = ("has_own", "inner")

    def __init__(self, has_own: bool, inner: list[tuple[str, bool, _Plan]]) -> None:
        self.has_own = has_own
        # (name, is it a list, plan of its structs)
        self.inner = inner


def errors_in(response: Response) -> list[int]:
    """Returns all codes except NONE."""
    found: list[int] = []
    plan = _plan(type(response))
    if plan is not None:
        _collect(response, plan, found)
    return found


def _collect(value: Any, plan: _Plan, found: list[int]) -> None:
    if plan.has_own and value.error_code:
        found.append(value.error_code)
    for name, is_list, inner in plan.inner:
        held = getattr(value, name)
        if held is None:
            continue
        if is_list:
            for element in held:
                _collect(element, inner, found)
        else:
            _collect(held, inner, found)


@cache
def _plan(cls: StructType) -> _Plan | None:
    """None if there are none at any depth."""
    has_own = any(field.name == _FIELD for field in cls.fields)
    inner = [
        (field.name, field.kind.name == "array", below)
        for field in cls.fields
        if isinstance(field.element, StructType) and (below := _plan(field.element)) is not None
    ]
    return _Plan(has_own, inner) if has_own or inner else None
