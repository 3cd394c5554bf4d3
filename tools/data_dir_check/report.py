"""Comparisons made, and those that failed."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SHOWN_FAILURES = 20
_SHOWN_CHARACTERS = 300


class Report:
    def __init__(self) -> None:
        self.passed = 0
        self.failures: list[str] = []
        # Parts of the description that nothing was compared with, each once.
        self.unchecked: dict[str, None] = {}

    def same(self, what: str, ours: Any, kafkas: Any) -> None:
        if ours == kafkas:
            self.passed += 1
        else:
            self.failures.append(
                f"{what}: {_shorten(ours)}, but Kafka has {_shorten(kafkas)}{_difference(ours, kafkas)}"
            )

    def holds(self, what: str, is_so: bool) -> None:
        self.same(what, is_so, True)

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """An exception that escapes fails what is checked here, not the run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # any error is reported
            where = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
            self.failures.append(f"{what}: {type(error).__name__}: {error} ({at})")

    def leave_out(self, key: str) -> None:
        self.unchecked[key] = None

    def lines(self) -> list[str]:
        shown = [f"FAILED {failure}" for failure in self.failures[:_SHOWN_FAILURES]]
        if len(self.failures) > _SHOWN_FAILURES:
            shown.append(f"… and {len(self.failures) - _SHOWN_FAILURES} more failed")
        if self.unchecked:
            shown.append(f"not checked: {', '.join(self.unchecked)}")
        return [*shown, f"{self.passed} passed, {len(self.failures)} failed"]


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _difference(ours: Any, kafkas: Any) -> str:
    """Where two long things first differ."""
    if isinstance(ours, dict) and isinstance(kafkas, dict):
        names = [name for name in {**kafkas, **ours} if ours.get(name) != kafkas.get(name)]
        return f" (in {', '.join(map(str, names))})"
    if isinstance(ours, list) and isinstance(kafkas, list):
        index = next((i for i, (a, b) in enumerate(zip(ours, kafkas, strict=False)) if a != b), -1)
        return f" (from item {index if index >= 0 else min(len(ours), len(kafkas))} on)"
    return ""
