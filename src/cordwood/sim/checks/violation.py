"""A violation found by a check."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"
