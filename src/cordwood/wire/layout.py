"""A struct in one version: the schema's version ranges, resolved.

The code generators, the diagnosis and the tools all work from layouts, so that version rules are implemented once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from cordwood.wire.exceptions import UnsupportedVersion
from cordwood.wire.schema import Field, Kind, MessageType, StructType, Versions


@dataclass(frozen=True, slots=True)
class WireField:
    """A field that this version writes."""

    field: Field
    element: Kind | Layout | None
    """The element type of an array, or the layout of a struct."""
    nullable: bool
    compact: bool
    """Lengths and counts are unsigned varints, plus one."""
    tag: int | None

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def kind(self) -> str:
        return self.field.kind.name

    @property
    def min_size(self) -> int:
        """The fewest bytes an untagged field can take."""
        if self.kind == "struct":
            assert isinstance(self.element, Layout)
            return 1 if self.nullable else self.element.min_size
        return self.field.kind.size or _length_size(self.kind, self.compact)

    @property
    def min_element_size(self) -> int:
        """The fewest bytes an element of this array can take; at least 1, so that every count is bounded."""
        if isinstance(self.element, Layout):
            return max(self.element.min_size, 1)
        assert self.element is not None
        return self.element.size or _length_size(self.element.name, self.compact)


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct in one version."""

    struct: StructType
    version: int
    flexible: bool
    fields: tuple[WireField, ...]
    """Untagged fields, in wire order."""
    tagged: tuple[WireField, ...]
    """Tagged fields, in tag order."""
    absent: tuple[Field, ...]
    """Fields that this version lacks: reading yields their default, writing requires it unless ignorable."""
    min_size: int

    @property
    def name(self) -> str:
        return self.struct.__name__

    @property
    def holds_records(self) -> bool:
        return any(
            field.kind == "records" or (isinstance(field.element, Layout) and field.element.holds_records)
            for field in (*self.fields, *self.tagged)
        )


def message_layout(message: MessageType, version: int) -> Layout:
    if version not in message.versions:
        raise UnsupportedVersion(
            message.__name__, "", f"there is no version {version}; its versions are {message.versions}"
        )
    return struct_layout(message, version, version in message.flexible_versions)


@cache
def struct_layout(struct: StructType, version: int, flexible: bool) -> Layout:
    untagged, tagged, absent = [], [], []
    for field in struct.fields:
        if version not in Versions.parse(field.versions):
            absent.append(field)
        elif version in Versions.parse(field.tagged):
            tagged.append(_wire_field(field, version, flexible, field.tag))
        else:
            untagged.append(_wire_field(field, version, flexible, None))
    tagged.sort(key=lambda field: field.tag or 0)
    return Layout(
        struct=struct,
        version=version,
        flexible=flexible,
        fields=tuple(untagged),
        tagged=tuple(tagged),
        absent=tuple(absent),
        min_size=sum(field.min_size for field in untagged) + flexible,
    )


def _wire_field(field: Field, version: int, flexible: bool, tag: int | None) -> WireField:
    element: Any = field.element
    if isinstance(element, StructType):
        element = struct_layout(element, version, flexible)
    compact = flexible if field.flexible is None else version in Versions.parse(field.flexible)
    return WireField(field, element, version in Versions.parse(field.nullable), compact, tag)


def _length_size(kind: str, compact: bool) -> int:
    if compact:
        return 1
    return 2 if kind == "string" else 4
