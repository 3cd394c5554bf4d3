"""Generates the Python code that decodes one message in one version.

All nested structs become one function, and each run of fixed-size fields, with the length that follows it, is read by
one precompiled `struct.Struct`. For example, ProduceRequest version 9 reads two fields and a count like this::

    struct1.acks, struct1.timeout_ms, length4 = unpack_hiB(data, position)
    position += 7

Lengths are not checked as they are read: Python truncates a slice that runs past the end, so nothing is allocated that
does not exist, and the next read, or the final comparison of the position with the size, fails. Counts are checked
against the remaining bytes before a loop begins. The generated code only detects an error; diagnosis.py decodes the
bytes again to explain it, so that valid bytes pay nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cordwood.wire.layout import Layout, WireField
from cordwood.wire.primitives import MAX_STRING_BYTES, Buffer, continue_uvarint
from cordwood.wire.schema import FRESH, Field, StructType

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]
"""(data, position, size) -> the message and the position after it, which the caller must compare with the size."""


class Malformed(Exception):
    """The bytes are invalid; diagnosis.py explains why."""


def compile_decoder(layout: Layout, *, of_bytes: bool) -> Decoder:
    """Compiles a decoder. `of_bytes` accepts `bytes` only, whose slices decode faster than those of other buffers (135
    ns instead of 220)."""
    return _Writer(of_bytes).decoder(layout)


class _Writer:
    def __init__(self, of_bytes: bool) -> None:
        self.of_bytes = of_bytes
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.run: list[tuple[str, str]] = []
        self.after_run: list[str] = []
        self.scope: dict[str, Any] = {
            "new": object.__new__,
            "Malformed": Malformed,
            "unpack_from": struct.unpack_from,
            "continue_uvarint": continue_uvarint,
            "long_string": _long_string,
            "BOOLEANS": (False, True),
        }

    def decoder(self, layout: Layout) -> Decoder:
        message = self.new_struct(layout.struct)
        if layout.holds_records:
            self.line("view = memoryview(data)")
        self.struct_fields(message, layout)
        self.flush()
        self.line(f"return {message}, position")
        source = "def decode(data, position, size):\n" + "\n".join(self.lines)
        exec(compile(source, f"<decoder of {layout.name} version {layout.version}>", "exec"), self.scope)
        decode: Decoder = self.scope["decode"]
        return decode

    # ---- structs

    def struct_fields(self, target: str, layout: Layout) -> None:
        for absent in layout.absent:
            self.set_default(f"{target}.{absent.name}", absent)
        for field in layout.fields:
            self.field(f"{target}.{field.name}", field)
        if layout.flexible:
            self.tags(target, layout)
        else:
            self.line(f"{target}.unknown_tags = ()")

    def new_struct(self, cls: StructType) -> str:
        target = self.name("struct")
        self.line(f"{target} = new({self.constant(cls)})")
        return target

    def set_default(self, target: str, field: Field) -> None:
        if field.default is not FRESH:
            self.line(f"{target} = {field.default!r}")
        elif field.kind.name == "array":
            self.line(f"{target} = []")
        else:
            assert isinstance(field.element, StructType)
            inner = self.new_struct(field.element)
            for nested in field.element.fields:
                self.set_default(f"{inner}.{nested.name}", nested)
            self.line(f"{inner}.unknown_tags = ()")
            self.line(f"{target} = {inner}")

    def tags(self, target: str, layout: Layout) -> None:
        count = self.name("tags")
        self.run.append(("B", count))
        self.flush()
        self.line(f"{target}.unknown_tags = ()")
        for field in layout.tagged:
            self.set_default(f"{target}.{field.name}", field.field)
        tag, length, end, last, unknown = (self.name(n) for n in ("tag", "length", "end", "last", "unknown"))
        with self.block(f"if {count}:"):
            self.long_uvarint(count)
            self.line(f"if {count} * 2 > size - position: raise Malformed")
            self.line(f"{last} = -1")
            self.line(f"{unknown} = []")
            with self.block(f"for _ in range({count}):"):
                self.uvarint(tag)
                self.line(f"if {tag} <= {last}: raise Malformed")
                self.line(f"{last} = {tag}")
                self.uvarint(length)
                self.line(f"{end} = position + {length}")
                self.line(f"if {end} > size: raise Malformed")
                for index, field in enumerate(layout.tagged):
                    with self.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                        self.field(f"{target}.{field.name}", field)
                        self.flush()
                        self.line(f"if position != {end}: raise Malformed")
                with self.block("else:" if layout.tagged else "if True:"):
                    self.line(f"{unknown}.append(({tag}, {self.copied(f'data[position:{end}]')}))")
                    self.line(f"position = {end}")
            self.line(f"if {unknown}: {target}.unknown_tags = tuple({unknown})")

    # ---- fields

    def field(self, target: str, field: WireField) -> None:
        if field.field.kind.format:
            self.fixed(target, field.kind, field.field.kind.format)
        elif field.kind == "struct":
            self.nested(target, field)
        elif field.kind == "array":
            self.array(target, field)
        else:
            length = self.length(field.kind, field.compact)
            with self.present(target, length, field):
                self.sized(target, field.kind, length, field.compact)

    def fixed(self, target: str, kind: str, letter: str) -> None:
        if kind == "bool":
            # Only two values are valid: the subscript rejects the others for free.
            byte = self.name("byte")
            self.run.append(("B", byte))
            self.after_run.append(f"{target} = BOOLEANS[{byte}]")
        else:
            self.run.append((letter, target))

    def nested(self, target: str, field: WireField) -> None:
        assert isinstance(field.element, Layout)
        if not field.nullable:
            inner = self.new_struct(field.element.struct)
            self.struct_fields(inner, field.element)
            self.line(f"{target} = {inner}")
            return
        mark = self.name("mark")
        if field.tag is None:
            self.run.append(("b", mark))
            self.flush()
        else:
            self.flush()
            self.uvarint(mark)
        with self.block(f"if {mark} == 1:"):
            inner = self.new_struct(field.element.struct)
            self.struct_fields(inner, field.element)
            self.flush()
            self.line(f"{target} = {inner}")
        self.line(f"elif {mark} == {-1 if field.tag is None else 0}: {target} = None")
        self.line("else: raise Malformed")

    def array(self, target: str, field: WireField) -> None:
        count = self.length("array", field.compact)
        with self.present(target, count, field):
            if field.compact:
                self.line(f"{count} -= 1")
            element = field.element
            if isinstance(element, Layout):
                self.loop(target, count, field)
            elif element is not None and element.format and element.name not in ("bool", "uuid"):
                # struct checks the format against the buffer before it allocates anything.
                values = f'unpack_from(f">{{{count}}}{element.format}", data, position)'
                self.line(f"{target} = list({values})")
                self.line(f"position += {count} * {element.size}" if element.size > 1 else f"position += {count}")
            else:
                self.loop(target, count, field)

    def loop(self, target: str, count: str, field: WireField) -> None:
        size = field.min_element_size
        self.line(f"if {count}{f' * {size}' if size > 1 else ''} > size - position: raise Malformed")
        items = self.name("items")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            if isinstance(field.element, Layout):
                item = self.new_struct(field.element.struct)
                self.struct_fields(item, field.element)
            else:
                item = self.name("item")
                assert field.element is not None
                if field.element.format:
                    self.fixed(item, field.element.name, field.element.format)
                else:
                    length = self.length(field.element.name, field.compact)
                    self.refuse_null(length, field.compact)
                    self.sized(item, field.element.name, length, field.compact)
            self.flush()
            self.line(f"{items}.append({item})")

    # ---- lengths

    def length(self, kind: str, compact: bool) -> str:
        """Reads a length or count as encoded: plus one if compact, -1 for null if not."""
        length = self.name("length")
        self.run.append(("B" if compact else "h" if kind == "string" else "i", length))
        self.flush()
        if compact:
            self.long_uvarint(length, "long_string" if kind == "string" else "continue_uvarint")
        return length

    @contextmanager
    def present(self, target: str, length: str, field: WireField) -> Iterator[None]:
        """Opens the block for a non-null value; null is handled around it."""
        if not field.nullable:
            self.refuse_null(length, field.compact)
            yield
            return
        with self.block(f"if {length}:" if field.compact else f"if {length} >= 0:"):
            yield
            self.flush()
        if field.compact:
            self.line(f"else: {target} = None")
        else:
            self.line(f"elif {length} == -1: {target} = None")
            self.line("else: raise Malformed")

    def refuse_null(self, length: str, compact: bool) -> None:
        self.line(f"if not {length}: raise Malformed" if compact else f"if {length} < 0: raise Malformed")

    def sized(self, target: str, kind: str, length: str, compact: bool) -> None:
        end = self.name("end")
        self.line(f"{end} = position + {length}{' - 1' if compact else ''}")
        taken = f"data[position:{end}]"
        if kind == "records":
            self.line(f"{target} = view[position:{end}]")
        elif kind == "bytes":
            self.line(f"{target} = {self.copied(taken)}")
        else:
            self.line(f"{target} = {taken}.decode()" if self.of_bytes else f'{target} = str({taken}, "utf-8")')
        self.line(f"position = {end}")

    def copied(self, taken: str) -> str:
        return taken if self.of_bytes else f"bytes({taken})"

    def uvarint(self, target: str) -> None:
        self.run.append(("B", target))
        self.flush()
        self.long_uvarint(target)

    def long_uvarint(self, target: str, reader: str = "continue_uvarint") -> None:
        self.line(f"if {target} > 127: {target}, position = {reader}(data, position, {target})")

    # ---- text

    def flush(self) -> None:
        """Emits one read for all pending fixed-size fields."""
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if letters == "B":
            self.line(f"{targets} = data[position]")
            self.line("position += 1")
        else:
            reader = struct.Struct(">" + letters)
            self.scope[f"unpack_{letters}"] = reader.unpack_from
            comma = "," if len(self.run) == 1 else ""
            self.line(f"{targets}{comma} = unpack_{letters}(data, position)")
            self.line(f"position += {reader.size}")
        self.run.clear()
        for line in self.after_run:
            self.line(line)
        self.after_run.clear()

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

    def constant(self, cls: StructType) -> str:
        self.scope[cls.__name__] = cls
        return cls.__name__


def _long_string(data: Buffer, position: int, first: int) -> tuple[int, int]:
    length, position = continue_uvarint(data, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise Malformed
    return length, position
