"""Copies a file into canonical order and spelling: fields by number, full names of types, sorted imports and options.
The order of messages stays, for clients write their positions into records."""

from __future__ import annotations

from dataclasses import replace

from .elements import (
    SCALARS,
    Enum,
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
)
from .scope import Scope


def normalized(file: File, scope: Scope) -> File:
    return _Normalizer(file, scope).file()


class _Normalizer:
    def __init__(self, file: File, scope: Scope) -> None:
        self._file = file
        self._scope = scope

    def file(self) -> File:
        file, package = self._file, self._file.package
        return replace(
            file,
            syntax=None if file.syntax == "proto2" else file.syntax,
            imports=sorted(set(file.imports)),
            public_imports=sorted(set(file.public_imports)),
            options=self._options(file.options, package),
            messages=[self._message(each, package) for each in file.messages],
            enums=[self._enum(each, package) for each in file.enums],
            extends=self._extends(file.extends, package),
            services=[self._service(each, package) for each in file.services],
        )

    def _message(self, message: Message, within: str) -> Message:
        inner = f"{within}.{message.name}" if within else message.name
        oneofs = [self._oneof(each, inner) for each in message.oneofs if each.fields]
        return replace(
            message,
            fields=self._fields(message.fields, inner),
            oneofs=sorted(oneofs, key=lambda oneof: oneof.fields[0].number),
            messages=[self._message(each, inner) for each in message.messages],
            enums=[self._enum(each, inner) for each in message.enums],
            extends=self._extends(message.extends, inner),
            extensions=sorted(
                (
                    Extensions([numbers], self._options(each.options, inner))
                    for each in message.extensions
                    for numbers in each.ranges
                ),
                key=lambda each: each.ranges[0],
            ),
            reserved=_one_by_one(message.reserved),
            options=self._options(message.options, inner),
        )

    def _fields(self, fields: list[Field], within: str) -> list[Field]:
        return sorted((self._field(each, within) for each in fields), key=lambda field: field.number)

    def _field(self, field: Field, within: str) -> Field:
        type_ = field.type
        if isinstance(type_, MapType):
            type_ = MapType(type_.key, self._type(type_.value, within))
        elif field.group is None:
            type_ = self._type(type_, within)
        group = None if field.group is None else self._message(field.group, within)
        return replace(field, type=type_, options=self._options(field.options, within), group=group)

    def _oneof(self, oneof: OneOf, within: str) -> OneOf:
        return replace(oneof, fields=self._fields(oneof.fields, within), options=self._options(oneof.options, within))

    def _enum(self, enum: Enum, within: str) -> Enum:
        values = [replace(each, options=self._options(each.options, within)) for each in enum.values]
        return replace(
            enum,
            values=sorted(values, key=lambda value: (value.number, value.name)),
            reserved=_one_by_one(enum.reserved),
            options=self._options(enum.options, within),
        )

    def _extends(self, extends: list[Extend], within: str) -> list[Extend]:
        found: dict[str, Extend] = {}
        for extend in extends:
            name = self._type(extend.type, within)
            found.setdefault(name, Extend(name)).fields += extend.fields
        return [replace(each, fields=self._fields(each.fields, within)) for each in found.values()]

    def _service(self, service: Service, within: str) -> Service:
        rpcs = [self._rpc(each, within) for each in service.rpcs]
        return replace(service, rpcs=rpcs, options=self._options(service.options, within))

    def _rpc(self, rpc: Rpc, within: str) -> Rpc:
        request, response = self._type(rpc.request, within), self._type(rpc.response, within)
        return replace(rpc, request=request, response=response, options=self._options(rpc.options, within))

    def _type(self, name: str, within: str) -> str:
        if name in SCALARS:
            return name
        found = self._scope.find(name, within)
        return name if found is None else f".{found.full_name}"

    def _options(self, options: list[Option], within: str) -> list[Option]:
        return sorted((self._option(each, within) for each in options), key=lambda option: option.name)

    def _option(self, option: Option, within: str) -> Option:
        name = option.name
        if name.startswith("("):
            extension, _, rest = name[1:].partition(")")
            full_name = self._scope.find_extension(extension, within)
            name = name if full_name is None else f"({full_name}){rest}"
        return Option(name, _ordered(option.value))


def _ordered(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return _ordered(value[0]) if len(value) == 1 else [_ordered(each) for each in value]
    return value


def _one_by_one(reserved: list[list[Numbers | str]]) -> list[list[Numbers | str]]:
    numbers = sorted(each for group in reserved for each in group if isinstance(each, Numbers))
    names = sorted(each for group in reserved for each in group if isinstance(each, str))
    in_order: list[Numbers | str] = [*numbers, *names]
    return [[each] for each in in_order]
