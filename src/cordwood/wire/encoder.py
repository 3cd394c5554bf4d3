"""Generates the Python code that encodes one message in one version.

As in decoder.py, all nested structs become one function, and each run of fixed-size fields, with the length that
follows it, is one `struct` pack. The function appends pieces to a list: exact `bytes` for its own data, and for
`records` the caller's object or a memoryview of it, so that those pieces can be distinguished and sent uncopied.

Invalid values raise Python's own errors, or `Malformed`; diagnosis.py finds the field and the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cordwood.wire.decoder import Malformed
from cordwood.wire.layout import Layout, WireField
from cordwood.wire.primitives import MAX_STRING_BYTES, encode_uvarint
from cordwood.wire.schema import FRESH, Field, StructType

_ONE_BYTE = [bytes([value]) for value in range(256)]

Encoder = Callable[[Any, list[Any]], None]
"""(message, pieces): appends the message's bytes to the pieces."""


def compile_encoder(layout: Layout) -> Encoder:
    return _Writer().encoder(layout)


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.pieces = "pieces"
        self.run: list[tuple[str, str]] = []
        self.scope: dict[str, Any] = {
            "Malformed": Malformed,
            "pack": struct.pack,
            "uvarint": encode_uvarint,
            "string_length": _string_length,
            "write_tags": _write_tags,
            "join": b"".join,
            "ONE_BYTE": _ONE_BYTE,
        }

    def encoder(self, layout: Layout) -> Encoder:
        self.struct("message", layout)
        self.flush()
        source = "def encode(message, pieces):\n" + "\n".join(self.lines or [" pass"])
        exec(compile(source, f"<encoder of {layout.name} version {layout.version}>", "exec"), self.scope)
        encode: Encoder = self.scope["encode"]
        return encode

    # ---- structs

    def struct(self, source: str, layout: Layout) -> None:
        for absent in layout.absent:
            if not absent.ignorable:
                self.line(f"if {_differs(f'{source}.{absent.name}', absent)}: raise Malformed")
        for field in layout.fields:
            self.field(f"{source}.{field.name}", field)
        if layout.flexible:
            self.tags(source, layout)
        else:
            self.line(f"if {source}.unknown_tags: raise Malformed")

    def tags(self, source: str, layout: Layout) -> None:
        """There are nearly always none: then the zero count joins the preceding run."""
        tags = self.name("tags")
        self.line(f"{tags} = {source}.unknown_tags")
        waiting, self.run = self.run, []
        for field in layout.tagged:
            with self.block(f"if {_differs(f'{source}.{field.name}', field.field)}:"):
                outer, self.pieces = self.pieces, self.name("pieces")
                self.line(f"{self.pieces} = []")
                self.field(f"{source}.{field.name}", field)
                self.flush()
                self.line(f"{tags} = (*{tags}, ({field.tag}, join({self.pieces})))")
                self.pieces = outer
        self.run = waiting
        with self.block(f"if {tags}:"):
            self.flush(keep=True)
            self.line(f"write_tags({self.pieces}, {tags})")
        with self.block("else:"):
            self.run.append(("x", ""))
            self.flush()

    # ---- fields

    def field(self, source: str, field: WireField) -> None:
        if field.field.kind.format:
            self.fixed(source, field.kind, field.field.kind.format)
        elif field.kind == "struct":
            self.nested(source, field)
        elif field.kind == "array":
            self.array(source, field)
        else:
            self.sized(source, field.kind, field.nullable, field.compact)

    def fixed(self, source: str, kind: str, letter: str) -> None:
        if kind == "uuid":
            # struct would silently truncate or pad any other length.
            value = self.name("uuid")
            self.line(f"{value} = {source}")
            self.line(f"if len({value}) != 16: raise Malformed")
            source = value
        self.run.append((letter, source))

    def nested(self, source: str, field: WireField) -> None:
        assert isinstance(field.element, Layout)
        value = self.name("struct")
        self.line(f"{value} = {source}")
        if not field.nullable:
            self.struct(value, field.element)
            return
        self.flush()
        null, present = ("b'\\xff'", "b'\\x01'") if field.tag is None else ("b'\\x00'", "b'\\x01'")
        self.line(f"if {value} is None: {self.pieces}.append({null})")
        with self.block("else:"):
            self.line(f"{self.pieces}.append({present})")
            self.struct(value, field.element)
            self.flush()

    def array(self, source: str, field: WireField) -> None:
        items, count = self.name("items"), self.name("count")
        self.line(f"{items} = {source}")
        self.null_or_length(items, count, f"len({items})", field.nullable, field.compact)
        self.length(count, "array", field.compact)
        with self.optional(items, field.nullable):
            element = field.element
            if isinstance(element, Layout):
                item = self.name("item")
                with self.block(f"for {item} in {items}:"):
                    self.struct(item, element)
                    self.flush()
            elif element is not None and element.format and element.name != "uuid":
                self.line(f'{self.pieces}.append(pack(f">{{len({items})}}{element.format}", *{items}))')
            else:
                assert element is not None
                item = self.name("item")
                with self.block(f"for {item} in {items}:"):
                    if element.format:
                        self.fixed(item, element.name, element.format)
                    else:
                        self.sized(item, element.name, False, field.compact)
                    self.flush()

    def sized(self, source: str, kind: str, nullable: bool, compact: bool) -> None:
        value, length = self.name("value"), self.name("length")
        if kind == "string":
            if nullable:
                self.line(f"{value} = {source}")
                with self.block(f"if {value} is None:"):
                    self.line(f"{value} = b''")
                    self.line(f"{length} = {0 if compact else -1}")
                with self.block("else:"):
                    self.line(f"{value} = {value}.encode()")
                    self.line(f"{length} = len({value}){' + 1' if compact else ''}")
            else:
                self.line(f"{value} = {source}.encode()")
                self.line(f"{length} = len({value}){' + 1' if compact else ''}")
            self.length(length, kind, compact)
            self.line(f"{self.pieces}.append({value})")
            return
        self.line(f"{value} = {source}")
        self.null_or_length(value, length, f"len({value})", nullable, compact)
        self.length(length, kind, compact)
        with self.optional(value, nullable):
            if kind == "records":
                self.line(f"{self.pieces}.append(memoryview({value}) if {value}.__class__ is bytes else {value})")
            else:
                self.line(f"{self.pieces}.append({value})")

    # ---- lengths

    def null_or_length(self, value: str, length: str, measure: str, nullable: bool, compact: bool) -> None:
        present = f"{measure} + 1" if compact else measure
        if nullable:
            self.line(f"{length} = {0 if compact else -1} if {value} is None else {present}")
        else:
            self.line(f"{length} = {present}")

    @contextmanager
    def optional(self, value: str, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        with self.block(f"if {value} is not None:"):
            yield
            self.flush()

    def length(self, length: str, kind: str, compact: bool) -> None:
        """Emits a length or count together with the preceding run."""
        if not compact:
            self.run.append(("h" if kind == "string" else "i", length))
            self.flush()
            return
        waiting = list(self.run)
        with self.block(f"if {length} < 128:"):
            self.run.append(("B", length))
            self.flush()
        with self.block("else:"):
            self.run = waiting
            self.flush()
            writer = "string_length" if kind == "string" else "uvarint"
            self.line(f"{self.pieces}.append({writer}({length}))")

    # ---- text

    def flush(self, *, keep: bool = False) -> None:
        """Emits one write for all pending fixed-size fields."""
        if self.run:
            letters = "".join(letter for letter, _ in self.run)
            if letters == "x":
                self.line(f"{self.pieces}.append(b'\\x00')")
            elif letters == "B":
                self.line(f"{self.pieces}.append(ONE_BYTE[{self.run[0][1]}])")
            else:
                packer = f"pack_{letters.replace('?', 't')}"
                self.scope[packer] = struct.Struct(">" + letters).pack
                values = ", ".join(value for letter, value in self.run if letter != "x")
                self.line(f"{self.pieces}.append({packer}({values}))")
        if not keep:
            self.run = []

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"


def _differs(source: str, field: Field) -> str:
    """An expression that is true when a value is not the field's default."""
    if field.default is None:
        return f"{source} is not None"
    if field.default is not FRESH:
        return f"{source} != {field.default!r}"
    if field.kind.name == "array":
        return f"({source} or {source} is None)"
    assert isinstance(field.element, StructType)
    nested = [_differs(f"{source}.{inner.name}", inner) for inner in field.element.fields]
    return f"({' or '.join([f'{source} is None', *nested, f'{source}.unknown_tags'])})"


def _string_length(length: int) -> bytes:
    if length > MAX_STRING_BYTES + 1:
        raise Malformed
    return encode_uvarint(length)


def _write_tags(pieces: list[Any], tags: tuple[tuple[int, bytes], ...]) -> None:
    """Writes known and unknown tags together, in tag order."""
    if len(tags) == 1:
        tag, data = tags[0]
        if tag < 128 and len(data) < 128:
            # Three bytes without varints: an offset commit has one such tag, and half the encoding time.
            pieces.append(bytes((1, tag, len(data))) + data)
            return
    pieces.append(encode_uvarint(len(tags)))
    last = -1
    for tag, data in sorted(tags):
        if tag <= last:
            raise Malformed
        last = tag
        pieces.append(encode_uvarint(tag))
        pieces.append(encode_uvarint(len(data)))
        pieces.append(data)
