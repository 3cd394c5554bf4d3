"""The responses to clients of schema registries, and the final contents of each registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Registration:
    """An acknowledged one."""

    client: str
    registry: str
    subject: str
    schema: str
    id: int
    version: int
    ended_s: float

    @property
    def context(self) -> str:
        return self.subject[1:].partition(":")[0] if self.subject.startswith(":.") else "."

    def __str__(self) -> str:
        return (
            f"{self.schema!r} in {self.subject}: id {self.id}, version {self.version}, as {self.registry} answered "
            f"{self.client} at {self.ended_s:.3f} s"
        )


# (id, schema) by version, by subject.
Contents = Mapping[str, Mapping[int, tuple[int, str]]]


@dataclass(slots=True)
class RegistryHistory:
    registrations: list[Registration] = field(default_factory=list)
    # A registry's answer for an id after its registration was acknowledged: (registration, registry, schema).
    reads: list[tuple[Registration, str, str | None]] = field(default_factory=list)
    # By source: each registry, and a reader of the topic that reads uncommitted records.
    final: dict[str, Contents] = field(default_factory=dict)
