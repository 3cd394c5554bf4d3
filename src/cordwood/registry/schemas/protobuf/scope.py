"""The types of a file and of all files that it imports, by their full names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .elements import Enum, File, Message


class Found(NamedTuple):
    full_name: str
    package: str
    type: Message | Enum

    @property
    def local_name(self) -> str:
        """Without the package."""
        return self.full_name[len(self.package) + 1 :] if self.package else self.full_name


class Scope:
    def __init__(self, file: File, others: Mapping[str, File]) -> None:
        self._types: dict[str, Found] = {}
        self.extensions: set[str] = set()
        """Full names of fields that extend messages."""
        for each in (file, *others.values()):
            self._collect(each.package, each.package, each.messages, each.enums)
            for extend in each.extends:
                self.extensions.update(_joined(each.package, field.name) for field in extend.fields)

    def _collect(self, prefix: str, package: str, messages: Iterable[Message], enums: Iterable[Enum]) -> None:
        for enum in enums:
            name = _joined(prefix, enum.name)
            self._types.setdefault(name, Found(name, package, enum))
        for message in messages:
            name = _joined(prefix, message.name)
            if name not in self._types:
                self._types[name] = Found(name, package, message)
                self._collect(name, package, message.all_messages(), message.enums)
            for extend in message.extends:
                self.extensions.update(_joined(name, field.name) for field in extend.fields)

    def find(self, name: str, within: str) -> Found | None:
        """Looks up a name as written, within a message or package: the innermost definition wins."""
        if name.startswith("."):
            return self._types.get(name[1:])
        scope = within
        while True:
            found = self._types.get(_joined(scope, name))
            if found is not None or not scope:
                return found
            scope = scope.rpartition(".")[0]

    def find_extension(self, name: str, within: str) -> str | None:
        if name.startswith("."):
            return name[1:]
        scope = within
        while True:
            candidate = _joined(scope, name)
            if candidate in self.extensions:
                return candidate
            if not scope:
                return None
            scope = scope.rpartition(".")[0]


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
