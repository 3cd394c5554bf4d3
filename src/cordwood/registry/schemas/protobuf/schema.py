"""**ProtobufSchema**."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from cordwood.registry.schemas.schema import PROTOBUF, Incompatibility, InvalidSchema, Reference, Resolved, Schema

from .compatibility import COMPATIBLE, differences, explained
from .descriptors import DescriptorBuilder, ElementReader, add_all, decoded, encoded, new_pool
from .elements import File
from .known import known_descriptor, known_text
from .normalizing import normalized
from .parsing import parse
from .printing import printed
from .scope import Scope

DEFAULT_NAME = "default"
"""The name of a file whose text does not give one."""


class ProtobufSchema(Schema):
    type = PROTOBUF

    def __init__(self, file: File, references: Sequence[Reference], resolved: Resolved) -> None:
        self.file = file
        self.references = references
        self._resolved = resolved

    def __reduce__(self) -> tuple[Any, ...]:
        """Descriptors cannot be pickled, and are built again."""
        return ProtobufSchema, (self.file, self.references, self._resolved)

    @classmethod
    def parse(cls, text: str, references: Sequence[Reference], resolved: Resolved, *, validate: bool) -> ProtobufSchema:
        """A .proto text, or base64 of a FileDescriptorProto. Raises `InvalidSchema`."""
        descriptor = decoded(text)
        if descriptor is None:
            made = cls(parse(text), references, resolved)
        else:
            made = cls(_read(descriptor, resolved), references, resolved)
        if validate:
            assert made.descriptor is not None
        return made

    @cached_property
    def imported(self) -> dict[str, File]:
        """All files that this one imports, also indirectly; each after those that it imports itself."""
        return _Imports(self._resolved).of(self.file)

    @cached_property
    def scope(self) -> Scope:
        return Scope(self.file, self.imported)

    @cached_property
    def pool(self) -> DescriptorPool:
        """Includes this file and all its imports."""
        return self._built[1]

    @property
    def descriptor(self) -> descriptor_pb2.FileDescriptorProto:
        return self._built[0]

    @cached_property
    def _built(self) -> tuple[descriptor_pb2.FileDescriptorProto, DescriptorPool]:
        pool = new_pool()
        add_all(pool, _descriptors(self.imported))
        return DescriptorBuilder(self.file, self.scope).build(DEFAULT_NAME, pool), pool

    @cached_property
    def canonical(self) -> str:
        return printed(self.file)

    def normalized(self) -> ProtobufSchema:
        return ProtobufSchema(normalized(self.file, self.scope), sorted(set(self.references)), self._resolved)

    def formatted(self, how: str) -> str:
        return encoded(self.descriptor) if how == "serialized" else self.canonical

    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        assert isinstance(writer, ProtobufSchema)
        found = differences((writer.file, writer.scope), (self.file, self.scope))
        return [explained(difference) for difference in found if difference.kind not in COMPATIBLE]


class _Imports:
    def __init__(self, resolved: Resolved) -> None:
        self._resolved = resolved
        self._files: dict[str, File] = {}
        self._open: list[str] = []

    def of(self, file: File) -> dict[str, File]:
        """Raises `InvalidSchema`."""
        for name in (*file.imports, *file.public_imports):
            if name in self._open:
                raise InvalidSchema(f"The import of {name!r} is circular: {' -> '.join([*self._open, name])}")
            if name not in self._files:
                self._open.append(name)
                imported = self._read(name)
                self.of(imported)
                self._files[name] = imported
                self._open.pop()
        return self._files

    def _read(self, name: str) -> File:
        text = self._resolved.get(name) or known_text(name)
        if text is not None:
            descriptor = decoded(text)
            return parse(text) if descriptor is None else _read(descriptor, self._resolved)
        known = known_descriptor(name)
        if known is None:
            raise InvalidSchema(f"No reference found for import {name!r}: give one with this name")
        return ElementReader(known, new_pool()).file()


def _read(descriptor: descriptor_pb2.FileDescriptorProto, resolved: Resolved) -> File:
    """Raises `InvalidSchema`."""
    outline = File(imports=list(descriptor.dependency))
    pool = new_pool()
    add_all(pool, _descriptors(_Imports(resolved).of(outline)))
    own = descriptor_pb2.FileDescriptorProto()
    own.CopyFrom(descriptor)
    own.name = own.name or DEFAULT_NAME
    add_all(pool, {own.name: own})
    return ElementReader(descriptor, pool).file()


def _descriptors(files: dict[str, File]) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    pool = new_pool()
    made: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for name, file in files.items():
        known = known_descriptor(name)
        if known is not None:
            made[name] = known
            add_all(pool, {name: known})
        else:
            made[name] = DescriptorBuilder(file, Scope(file, files)).build(name, pool)
    return made
