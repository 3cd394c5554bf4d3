"""Names of subjects, which begin with their context: `:.context:subject`. Without one it is the default context."""

from __future__ import annotations

from typing import NamedTuple

from .errors import RegistryError

DEFAULT_CONTEXT = "."
GLOBAL = "__GLOBAL"
"""Stands for all subjects, of the registry or of a context."""

_MAX_LENGTH = 4096


class Subject(NamedTuple):
    context: str
    name: str
    """Empty: the context as a whole."""

    @property
    def qualified(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    @property
    def is_context(self) -> bool:
        return self.name in ("", GLOBAL)


def parse_subject(text: str) -> Subject:
    """Raises `RegistryError`."""
    if len(text) > _MAX_LENGTH or any(ord(character) < 32 for character in text):
        raise RegistryError(42208, f"The specified subject '{text[:100]!r}' is not a valid.")
    if text.startswith(":.") and ":" in text[2:]:
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    if text.startswith(":*:"):
        return Subject("*", text[3:])
    return Subject(DEFAULT_CONTEXT, text)


def within(subject: str, parent: Subject) -> Subject:
    """The subject of a reference: in the context of the schema that refers to it, unless it says another."""
    parsed = parse_subject(subject)
    is_plain = not subject.startswith(":.")
    return Subject(parent.context, parsed.name) if is_plain else parsed
