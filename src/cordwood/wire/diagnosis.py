"""Explains why a decoder rejected bytes, or an encoder a message.

Slow and simple: walks the layout field by field and tracks the path. Runs only after a rejection, and in tests as a
second opinion on the generated code.
"""

from __future__ import annotations

import struct
from typing import Any

from cordwood.wire.exceptions import DecodeError, EncodeError, UnsupportedVersion
from cordwood.wire.layout import Layout, WireField
from cordwood.wire.primitives import MAX_STRING_BYTES, Buffer
from cordwood.wire.schema import FRESH, Field, Kind, StructType


def read_slowly(layout: Layout, data: Buffer, position: int, size: int, strict: bool) -> tuple[Any, int]:
    """Decodes as the compiled decoder does; raises `DecodeError` with the field and the byte."""
    reader = _Reader(layout, data, position, size)
    message = reader.struct(layout)
    if strict and reader.position != size:
        reader.refuse(f"{size - reader.position} bytes left over after the message")
    return message, reader.position


def explain_refusal(layout: Layout, message: Any) -> EncodeError | None:
    """Returns why the message cannot be written in this version, or None if nothing is wrong."""
    try:
        _Inspector(layout).struct(layout, message, "")
    except EncodeError as refusal:
        return refusal
    return None


class _Reader:
    def __init__(self, layout: Layout, data: Buffer, position: int, size: int) -> None:
        self.message = f"{layout.name} version {layout.version}"
        self.data = data
        self.position = position
        self.size = size
        self.path: list[str] = []

    def refuse(self, reason: str, position: int | None = None) -> None:
        path = ".".join(self.path).replace(".[", "[")
        raise DecodeError(self.message, path, self.position if position is None else position, reason)

    def struct(self, layout: Layout) -> Any:
        cls: Any = layout.struct
        value = object.__new__(cls)
        for absent in layout.absent:
            setattr(value, absent.name, absent.new_default())
        for field in layout.fields:
            self.path.append(field.name)
            setattr(value, field.name, self.field(field))
            self.path.pop()
        value.unknown_tags = self.tags(value, layout) if layout.flexible else ()
        return value

    def tags(self, value: Any, layout: Layout) -> tuple[tuple[int, bytes], ...]:
        for field in layout.tagged:
            setattr(value, field.name, field.field.new_default())
        known = {field.tag: field for field in layout.tagged}
        unknown = []
        self.path.append("tagged fields")
        start = self.position
        count = self.uvarint()
        if count * 2 > self.size - self.position:
            self.refuse(f"{count} tagged fields in {self.size - self.position} bytes", start)
        last = -1
        for _ in range(count):
            start = self.position
            tag = self.uvarint()
            if tag <= last:
                self.refuse(f"tag {tag} after tag {last}", start)
            last = tag
            start = self.position
            length = self.uvarint()
            end = self.position + length
            if end > self.size:
                self.refuse(f"{length} bytes of tag {tag} where {self.size - self.position} are left", start)
            if tag in known:
                self.path[-1] = known[tag].name
                setattr(value, known[tag].name, self.field(known[tag]))
                if self.position != end:
                    self.refuse(f"ends {self.position - end:+} bytes from where its tag's length says")
                self.path[-1] = "tagged fields"
            else:
                unknown.append((tag, bytes(self.data[self.position : end])))
                self.position = end
        self.path.pop()
        return tuple(unknown)

    def field(self, field: WireField) -> Any:
        if field.kind == "struct":
            return self.nested(field)
        if field.kind == "array":
            return self.array(field)
        return self.scalar(field.field.kind, field.nullable, field.compact)

    def nested(self, field: WireField) -> Any:
        assert isinstance(field.element, Layout)
        if field.nullable:
            start = self.position
            null = 0 if field.tag is not None else -1
            mark = self.uvarint() if field.tag is not None else self.fixed("b", 1)
            if mark == null:
                return None
            if mark != 1:
                self.refuse(f"{mark} where {null} (null) or 1 says whether a struct follows", start)
        return self.struct(field.element)

    def array(self, field: WireField) -> Any:
        start = self.position
        count = self.uvarint() - 1 if field.compact else self.fixed("i", 4)
        if self.is_null(count, field.nullable, start):
            return None
        if count * field.min_element_size > self.size - self.position:
            self.refuse(f"{count} elements where {self.size - self.position} bytes are left", start)
        items = []
        for index in range(count):
            self.path.append(f"[{index}]")
            if isinstance(field.element, Layout):
                items.append(self.struct(field.element))
            else:
                assert field.element is not None
                items.append(self.scalar(field.element, False, field.compact))
            self.path.pop()
        return items

    def scalar(self, kind: Kind, nullable: bool, compact: bool) -> Any:
        start = self.position
        if kind.name == "bool":
            byte = self.fixed("B", 1)
            if byte > 1:
                self.refuse(f"{byte} is not a boolean", start)
            return byte == 1
        if kind.format:
            return self.fixed(kind.format, kind.size)
        if compact:
            length = self.uvarint() - 1
        elif kind.name == "string":
            length = self.fixed("h", 2)
        else:
            length = self.fixed("i", 4)
        if self.is_null(length, nullable, start):
            return None
        if kind.name == "string" and length > MAX_STRING_BYTES:
            self.refuse(f"a string of {length} bytes; {MAX_STRING_BYTES} is the maximum", start)
        end = self.position + length
        if end > self.size:
            self.refuse(f"a length of {length} where {self.size - self.position} bytes are left", start)
        taken = memoryview(self.data)[self.position : end]
        if kind.name == "string":
            try:
                text = str(taken, "utf-8")
            except UnicodeDecodeError as error:
                self.refuse(f"not UTF-8: {error.reason}", self.position + error.start)
            self.position = end
            return text
        self.position = end
        return taken if kind.name == "records" else bytes(taken)

    def is_null(self, length: int, nullable: bool, start: int) -> bool:
        if length >= 0:
            return False
        if length < -1:
            self.refuse(f"a length of {length}", start)
        if not nullable:
            self.refuse("null, but this field is not nullable", start)
        return True

    def fixed(self, letter: str, size: int) -> Any:
        if self.position + size > self.size:
            self.refuse(f"{size} bytes expected, {max(self.size - self.position, 0)} are left")
        value = struct.unpack_from(">" + letter, self.data, self.position)[0]
        self.position += size
        return value

    def uvarint(self) -> int:
        start, value = self.position, 0
        for shift in range(0, 35, 7):
            byte = self.fixed("B", 1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte > 0x7F or value > 0xFFFF_FFFF:
            self.refuse("an unsigned varint of more than 32 bits", start)
        return value


class _Inspector:
    """Checks a message's values against a layout."""

    def __init__(self, layout: Layout) -> None:
        self.message = layout.name
        self.version = layout.version

    def refuse(self, path: str, reason: str) -> None:
        raise EncodeError(self.message, path, f"{reason} (version {self.version})")

    def struct(self, layout: Layout, value: Any, path: str) -> None:
        if value.__class__ is not layout.struct:
            self.refuse(path, f"{_shown(value)} is not a {layout.name}")
        for absent in layout.absent:
            if not absent.ignorable and _is_set(getattr(value, absent.name), absent):
                raise UnsupportedVersion(
                    self.message,
                    _join(path, absent.name),
                    f"version {self.version} has no such field (it has {absent.versions}), "
                    f"so {_shown(getattr(value, absent.name))} cannot be written",
                )
        for field in (*layout.fields, *layout.tagged):
            self.field(field, getattr(value, field.name), _join(path, field.name))
        self.tags(layout, value.unknown_tags, path)

    def tags(self, layout: Layout, tags: tuple[tuple[int, bytes], ...], path: str) -> None:
        if tags and not layout.flexible:
            raise UnsupportedVersion(
                self.message,
                _join(path, "unknown_tags"),
                f"version {self.version} has no tagged fields, so {_shown(tags)} cannot be written",
            )
        seen = {field.tag for field in layout.tagged if field.tag is not None}
        for tag, _ in tags:
            if tag in seen:
                self.refuse(_join(path, "unknown_tags"), f"tag {tag} twice, or also a known field")
            seen.add(tag)

    def field(self, field: WireField, value: Any, path: str) -> None:
        if value is None:
            if not field.nullable:
                self.refuse(path, "None, but this field is not nullable")
        elif field.kind == "struct":
            assert isinstance(field.element, Layout)
            self.struct(field.element, value, path)
        elif field.kind == "array":
            if not isinstance(value, list | tuple):
                self.refuse(path, f"{_shown(value)} is not a list")
            for index, item in enumerate(value):
                if isinstance(field.element, Layout):
                    self.struct(field.element, item, f"{path}[{index}]")
                elif field.element is not None:
                    self.scalar(field.element, item, f"{path}[{index}]")
        else:
            self.scalar(field.field.kind, value, path)

    def scalar(self, kind: Kind, value: Any, path: str) -> None:
        if kind.name == "string":
            if not isinstance(value, str):
                self.refuse(path, f"{_shown(value)} is not a string")
            try:
                length = len(value.encode())
            except UnicodeEncodeError as error:
                self.refuse(path, f"{_shown(value)} is not UTF-8: {error.reason}")
            if length > MAX_STRING_BYTES:
                self.refuse(path, f"a string of {length} bytes; {MAX_STRING_BYTES} is the maximum")
        elif kind.name in ("bytes", "records"):
            if not isinstance(value, bytes | bytearray | memoryview):
                self.refuse(
                    path,
                    f"{_shown(value)} is not bytes"
                    + ("; encode_parts passes file ranges through" if kind.name == "records" else ""),
                )
        elif kind.name == "uuid":
            if not isinstance(value, bytes | bytearray | memoryview) or len(value) != 16:
                self.refuse(path, f"{_shown(value)} is not the 16 bytes of a uuid")
        else:
            try:
                struct.pack(">" + kind.format, value)
            except (struct.error, TypeError, OverflowError):
                self.refuse(path, f"{_shown(value)} is not {kind.name}")


def _is_set(value: Any, field: Field) -> bool:
    if field.default is not FRESH:
        return bool(value != field.default)
    if field.kind.name == "array":
        return value is None or len(value) > 0
    assert isinstance(field.element, StructType)
    return bool(value != field.element())


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
