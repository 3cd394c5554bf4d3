"""Converts elements to a FileDescriptorProto and back."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from cordwood.registry.schemas.schema import InvalidSchema

from .elements import (
    MAX_ENUM_NUMBER,
    MAX_FIELD_NUMBER,
    SCALARS,
    Aggregate,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    File,
    MapType,
    Message,
    Numbers,
    OneOf,
    Option,
    Rpc,
    Service,
    Value,
    Word,
)
from .printing import value_text
from .scope import Scope

_FieldProto = descriptor_pb2.FieldDescriptorProto
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_LABEL_NAMES = {number: name for name, number in _LABELS.items()}
_TYPES = {name: getattr(_FieldProto, f"TYPE_{name.upper()}") for name in SCALARS}
_TYPE_NAMES = {number: name for name, number in _TYPES.items()}
# Options with their own fields in FieldDescriptorProto.
_PSEUDO_OPTIONS = ("default", "json_name")


def decoded(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Base64 of a FileDescriptorProto; None if the text is none."""
    try:
        made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    return made if made.ByteSize() else None


def encoded(descriptor: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(descriptor.SerializeToString()).decode()


# ---- from elements


class DescriptorBuilder:
    def __init__(self, file: File, scope: Scope) -> None:
        self._file = file
        self._scope = scope
        # (target, owner of the option, enclosing message or package)
        self._custom: list[tuple[Any, Option, str]] = []

    def build(self, name: str, pool: DescriptorPool) -> descriptor_pb2.FileDescriptorProto:
        """Builds a descriptor with its dependencies in `pool`, and adds it there: so Protobuf's own rules are checked.

        Raises `InvalidSchema`."""
        file = self._file
        made = descriptor_pb2.FileDescriptorProto(name=name, package=file.package)
        if file.edition is not None:
            made.syntax = "editions"
            try:
                made.edition = descriptor_pb2.Edition.Value(f"EDITION_{file.edition}")
            except ValueError:
                raise InvalidSchema(f"Unknown edition {file.edition!r}") from None
        elif file.syntax == "proto3":
            made.syntax = "proto3"
        made.dependency.extend([*file.imports, *file.public_imports])
        made.public_dependency.extend(range(len(file.imports), len(made.dependency)))
        self._options(made.options, file.options, file.package)
        for message in file.messages:
            self._message(made.message_type.add(), message, file.package)
        for enum in file.enums:
            self._enum(made.enum_type.add(), enum, file.package)
        for extend in file.extends:
            self._extend(made.extension, extend, file.package)
        for service in file.services:
            self._service(made.service.add(), service)
        _add(pool, made)
        for options, option, within in self._custom:
            self._set_custom(options, option, within, pool)
        return made

    def _message(self, made: Any, message: Message, within: str) -> None:
        made.name = message.name
        inner = f"{within}.{message.name}" if within else message.name
        self._options(made.options, message.options, inner)
        for oneof in message.oneofs:
            declared = made.oneof_decl.add(name=oneof.name)
            self._options(declared.options, oneof.options, inner)
        positions = {id(oneof): index for index, oneof in enumerate(message.oneofs)}
        optionals: list[Any] = []
        for field, member_of in message.all_fields():
            added = self._field(made.field.add(), field, inner)
            if isinstance(field.type, MapType):
                added.type_name = f".{inner}.{self._map_entry(made.nested_type.add(), field, inner)}"
            if field.group is not None:
                self._message(made.nested_type.add(), field.group, inner)
            if member_of is not None:
                added.oneof_index = positions[id(member_of)]
            elif field.label == "optional" and self._file.syntax == "proto3":
                optionals.append(added)
        for added in optionals:
            # proto3 tracks presence with a synthetic oneof for each; they come after all others.
            added.proto3_optional = True
            added.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=_unused(f"_{added.name}", made))
        for nested in message.messages:
            self._message(made.nested_type.add(), nested, inner)
        for enum in message.enums:
            self._enum(made.enum_type.add(), enum, inner)
        for extend in message.extends:
            self._extend(made.extension, extend, inner)
        for extensions in message.extensions:
            for first, last in extensions.ranges:
                added_range = made.extension_range.add(start=first, end=last + 1)
                self._options(added_range.options, extensions.options, inner)
        for reserved in message.reserved:
            for each in reserved:
                if isinstance(each, str):
                    made.reserved_name.append(each)
                else:
                    made.reserved_range.add(start=each.first, end=each.last + 1)

    def _field(self, made: Any, field: Field, within: str) -> Any:
        made.name, made.number = field.name, field.number
        made.label = _LABELS[field.label or "optional"]
        if isinstance(field.type, MapType):
            made.label, made.type = _LABELS["repeated"], _FieldProto.TYPE_MESSAGE
        elif field.group is not None:
            made.type, made.type_name = _FieldProto.TYPE_GROUP, f".{within}.{field.group.name}"
        else:
            self._set_type(made, field.type, field.name, within)
        for option in field.options:
            if option.name == "default":
                made.default_value = _default_text(option.value)
            elif option.name == "json_name" and isinstance(option.value, str):
                made.json_name = option.value
        self._options(made.options, [each for each in field.options if each.name not in _PSEUDO_OPTIONS], within)
        return made

    def _set_type(self, made: Any, name: str, field: str, within: str) -> None:
        if name in SCALARS:
            made.type = _TYPES[name]
            return
        found = self._scope.find(name, within)
        if found is None:
            raise InvalidSchema(f'"{name}" of field {within}.{field} is not defined: neither here nor in an import')
        made.type = _FieldProto.TYPE_ENUM if isinstance(found.type, Enum) else _FieldProto.TYPE_MESSAGE
        made.type_name = f".{found.full_name}"

    def _map_entry(self, made: Any, field: Field, within: str) -> str:
        assert isinstance(field.type, MapType)
        made.name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        made.options.map_entry = True
        for name, number, type_ in (("key", 1, field.type.key), ("value", 2, field.type.value)):
            added = made.field.add(name=name, number=number, label=_LABELS["optional"])
            self._set_type(added, type_, f"{field.name}.{name}", within)
        return str(made.name)

    def _enum(self, made: Any, enum: Enum, within: str) -> None:
        made.name = enum.name
        self._options(made.options, enum.options, within)
        for value in enum.values:
            added = made.value.add(name=value.name, number=value.number)
            self._options(added.options, value.options, within)
        for reserved in enum.reserved:
            for each in reserved:
                if isinstance(each, str):
                    made.reserved_name.append(each)
                else:
                    made.reserved_range.add(start=each.first, end=each.last)

    def _extend(self, into: Any, extend: Extend, within: str) -> None:
        found = self._scope.find(extend.type, within)
        if found is None:
            raise InvalidSchema(f'extend: "{extend.type}" is not defined: neither here nor in an import')
        for field in extend.fields:
            added = self._field(into.add(), field, within)
            added.extendee = f".{found.full_name}"
            if field.label == "optional" and self._file.syntax == "proto3":
                added.proto3_optional = True

    def _service(self, made: Any, service: Service) -> None:
        package = self._file.package
        made.name = service.name
        self._options(made.options, service.options, package)
        for rpc in service.rpcs:
            added = made.method.add(name=rpc.name)
            for attribute, name in (("input_type", rpc.request), ("output_type", rpc.response)):
                found = self._scope.find(name, package)
                if found is None:
                    raise InvalidSchema(f'"{name}" of rpc {service.name}.{rpc.name} is not defined')
                setattr(added, attribute, f".{found.full_name}")
            if rpc.is_request_stream:
                added.client_streaming = True
            if rpc.is_response_stream:
                added.server_streaming = True
            self._options(added.options, rpc.options, package)

    # ---- options

    def _options(self, made: Any, options: Iterable[Option], within: str) -> None:
        for option in options:
            if option.name.startswith("("):
                self._custom.append((made, option, within))
                continue
            try:
                text_format.Parse(_nested_text(option.name.split("."), option.value), made)
            except text_format.ParseError as error:
                raise InvalidSchema(f"Option {option.name}: {error}") from None

    def _set_custom(self, made: Any, option: Option, within: str, pool: DescriptorPool) -> None:
        """Finds the extension of an option's name. An undefined one is kept as written."""
        name, _, rest = option.name[1:].partition(")")
        full_name = self._scope.find_extension(name, within)
        if full_name is None:
            added = made.uninterpreted_option.add()
            added.name.add(name_part=name, is_extension=True)
            for part in rest.split(".")[1:]:
                added.name.add(name_part=part.strip("()"), is_extension=part.startswith("("))
            if isinstance(option.value, str):
                added.string_value = option.value.encode()
            elif isinstance(option.value, Word):
                added.identifier_value = option.value.text
            else:
                added.aggregate_value = value_text(option.value)
            return
        text = _nested_text([f"[{full_name}]", *rest.split(".")[1:]], option.value)
        # The options of this pool know its extensions; ours, which are copied to, keep them as unknown fields.
        known = _in_pool(pool, made.DESCRIPTOR.full_name)()
        known.ParseFromString(made.SerializeToString())
        try:
            text_format.Parse(text, known, descriptor_pool=pool)
        except text_format.ParseError as error:
            raise InvalidSchema(f"Option {option.name}: {error}") from None
        made.ParseFromString(known.SerializeToString())


def _nested_text(path: list[str], value: Value) -> str:
    """`a.b = 1` in text format: a { b: 1 }."""
    if isinstance(value, list) and len(path) == 1:
        return "\n".join(_nested_text(path, each) for each in value)
    text = value_text(value)
    text = f"{path[-1]}: {text}"
    for name in reversed(path[:-1]):
        text = f"{name} {{ {text} }}"
    return text


def _default_text(value: Value) -> str:
    return value.text if isinstance(value, Word) else value if isinstance(value, str) else value_text(value)


def _unused(name: str, made: Any) -> str:
    taken = {each.name for each in made.oneof_decl} | {each.name for each in made.field}
    while name in taken:
        name = f"X{name}"
    return name


# ---- pools


def new_pool() -> DescriptorPool:
    """Includes descriptor.proto, which defines the options."""
    pool = DescriptorPool()
    own = descriptor_pb2.FileDescriptorProto()
    descriptor_pb2.DESCRIPTOR.CopyToProto(own)
    pool.Add(own)
    return pool


def add_all(pool: DescriptorPool, files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> None:
    """Each after those before it. Raises `InvalidSchema`."""
    for name, file in files.items():
        if name != descriptor_pb2.DESCRIPTOR.name:
            _add(pool, file)


def _add(pool: DescriptorPool, file: descriptor_pb2.FileDescriptorProto) -> None:
    try:
        pool.Add(file)
        pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        text = str(error).replace("Couldn't build proto file into descriptor pool: ", "")
        raise InvalidSchema(f"Invalid Protobuf schema: {text}") from None


def _in_pool(pool: DescriptorPool, name: str) -> type[Proto]:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


# ---- to elements


class ElementReader:
    """Reads a descriptor whose dependencies are in a pool: options are named by the extensions there."""

    def __init__(self, descriptor: descriptor_pb2.FileDescriptorProto, pool: DescriptorPool) -> None:
        self._descriptor = descriptor
        self._pool = pool

    def file(self) -> File:
        read = self._descriptor
        is_public = set(read.public_dependency)
        edition = descriptor_pb2.Edition.Name(read.edition) if read.syntax == "editions" else ""
        file = File(
            syntax=None if edition else (read.syntax or "proto2"),
            edition=edition.removeprefix("EDITION_") or None,
            package=read.package,
            imports=[name for index, name in enumerate(read.dependency) if index not in is_public],
            public_imports=[name for index, name in enumerate(read.dependency) if index in is_public],
            options=self._options(read.options),
        )
        file.messages = [self._message(each) for each in read.message_type]
        file.enums = [self._enum(each) for each in read.enum_type]
        file.extends = self._extends(read.extension)
        file.services = [self._service(each) for each in read.service]
        return file

    def _message(self, read: Any) -> Message:
        message = Message(read.name, options=self._options(read.options))
        entries = {each.name: each for each in read.nested_type if each.options.map_entry}
        groups = {each.type_name.rpartition(".")[2] for each in read.field if each.type == _FieldProto.TYPE_GROUP}
        nested = {each.name: each for each in read.nested_type}
        oneofs = [OneOf(each.name, options=self._options(each.options)) for each in read.oneof_decl]
        for each in read.field:
            field = self._field(each)
            simple = each.type_name.rpartition(".")[2]
            if each.type == _FieldProto.TYPE_MESSAGE and simple in entries:
                key, value = entries[simple].field
                field.label, field.type = "", MapType(_type_name(key), _type_name(value))
            elif each.type == _FieldProto.TYPE_GROUP:
                field.group = self._message(nested[simple])
            if each.HasField("oneof_index") and not each.proto3_optional:
                field.label = ""
                oneofs[each.oneof_index].fields.append(field)
            else:
                message.fields.append(field)
        message.oneofs = [oneof for oneof in oneofs if oneof.fields]
        message.messages = [
            self._message(each) for name, each in nested.items() if name not in entries and name not in groups
        ]
        message.enums = [self._enum(each) for each in read.enum_type]
        message.extends = self._extends(read.extension)
        message.extensions = [
            Extensions([Numbers(each.start, each.end - 1)], self._options(each.options))
            for each in read.extension_range
        ]
        message.reserved = _reserved(
            [Numbers(each.start, min(each.end - 1, MAX_FIELD_NUMBER)) for each in read.reserved_range],
            read.reserved_name,
        )
        return message

    def _field(self, read: Any) -> Field:
        label = _LABEL_NAMES[read.label or 1]
        is_implicit = self._descriptor.syntax in ("proto3", "editions") and not read.proto3_optional
        if label == "optional" and is_implicit:
            label = ""
        options = self._options(read.options)
        if read.HasField("default_value"):
            is_text = read.type in (_FieldProto.TYPE_STRING, _FieldProto.TYPE_BYTES)
            options.append(Option("default", read.default_value if is_text else Word(read.default_value)))
        if read.json_name and read.json_name != _json_name(read.name):
            options.append(Option("json_name", read.json_name))
        return Field(label, _type_name(read), read.name, read.number, options)

    def _enum(self, read: Any) -> Enum:
        values = [EnumValue(each.name, each.number, self._options(each.options)) for each in read.value]
        ranges = [Numbers(each.start, min(each.end, MAX_ENUM_NUMBER)) for each in read.reserved_range]
        return Enum(read.name, values, _reserved(ranges, read.reserved_name), self._options(read.options))

    def _extends(self, read: Any) -> list[Extend]:
        found: dict[str, Extend] = {}
        for each in read:
            found.setdefault(each.extendee, Extend(each.extendee)).fields.append(self._field(each))
        return list(found.values())

    def _service(self, read: Any) -> Service:
        rpcs = [
            Rpc(
                each.name,
                each.input_type,
                each.output_type,
                each.client_streaming,
                each.server_streaming,
                self._options(each.options),
            )
            for each in read.method
        ]
        return Service(read.name, rpcs, self._options(read.options))

    def _options(self, read: Any) -> list[Option]:
        if not read.ByteSize():
            return []
        known = _in_pool(self._pool, read.DESCRIPTOR.full_name)()
        known.ParseFromString(read.SerializeToString())
        options = []
        for field, value in known.ListFields():
            if field.name in ("map_entry", "uninterpreted_option"):
                continue
            name = f"({field.full_name})" if field.is_extension else field.name
            values = list(value) if field.is_repeated else [value]
            options += [Option(name, _option_value(field, each)) for each in values]
        return options


def _option_value(field: FieldDescriptor, value: Any) -> Value:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return Word(named.name if named is not None else str(value))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return Word("true" if value else "false")
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes(value).decode("latin-1")
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _aggregate(value)
    if isinstance(value, float) and value.is_integer() and not math.isinf(value):
        return Word(str(int(value)))
    return Word(str(value))


def _aggregate(message: Any) -> Aggregate:
    found: Aggregate = {}
    for field, value in message.ListFields():
        name = f"[{field.full_name}]" if field.is_extension else field.name
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            key, held = field.message_type.fields
            pairs: list[Value] = [
                {"key": _option_value(key, each), "value": _option_value(held, value[each])} for each in value
            ]
            found[name] = pairs
        elif field.is_repeated:
            found[name] = [_option_value(field, each) for each in value]
        else:
            found[name] = _option_value(field, value)
    return found


def _reserved(ranges: list[Numbers], names: Iterable[str]) -> list[list[Numbers | str]]:
    groups: list[list[Numbers | str]] = [list(ranges), list(names)]
    return [group for group in groups if group]


def _type_name(read: Any) -> str:
    return _TYPE_NAMES.get(read.type) or str(read.type_name)


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
