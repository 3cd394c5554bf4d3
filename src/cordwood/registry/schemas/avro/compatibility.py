"""Schema resolution as a check (Avro 1.12, "Schema Resolution"): decides whether a reader's schema can read all data of
a writer's.

Where Avro's Java library, which other registries ask, decides more than the specification, it is followed: a writer's
union needs every branch readable, records may differ in their namespace only within a reader's union, and a reader's
field is found by its aliases.
"""

from __future__ import annotations

from collections.abc import Iterator

from cordwood.registry.schemas.budget import Budget
from cordwood.registry.schemas.schema import Incompatibility

from .types import Array, Enum, Field, Fixed, Map, Named, Record, Type, Union

# The writer's types that each primitive of a reader also accepts.
_PROMOTED = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def incompatibilities(reader: Type, writer: Type) -> list[Incompatibility]:
    return list(_Check().types(reader, writer, "/"))


class _Check:
    def __init__(self) -> None:
        # Pairs that have been or are being compared: types may be recursive, and a cycle is compatible.
        self._assumed: set[tuple[int, int]] = set()
        # Pairs that failed even so.
        self._failed: set[tuple[int, int]] = set()
        self._budget = Budget()

    def types(self, reader: Type, writer: Type, path: str) -> Iterator[Incompatibility]:
        self._budget.spend()
        if isinstance(reader, Named) and isinstance(writer, Named):
            pair = (id(reader), id(writer))
            if pair in self._assumed:
                return
            self._assumed.add(pair)
        if isinstance(writer, Union):
            for index, branch in enumerate(writer.branches):
                if isinstance(reader, Union):
                    yield from self._against_union(reader, branch, path, index)
                else:
                    yield from self.types(reader, branch, path)
        elif isinstance(reader, Union):
            yield from self._against_union(reader, writer, path, None)
        else:
            yield from self._same_kind(reader, writer, path)

    def _against_union(self, reader: Union, writer: Type, path: str, index: int | None) -> Iterator[Incompatibility]:
        if any(self._reads(branch, writer, path) for branch in reader.branches):
            return
        where = path if index is None else _below(path, str(index))
        yield Incompatibility(
            "MISSING_UNION_BRANCH",
            where,
            f"The {{reader}} schema is missing a type inside a union field at path '{where}' in the {{writer}} schema",
            f"reader union lacking writer type: {_label(writer)}",
        )

    def _reads(self, reader: Type, writer: Type, path: str) -> bool:
        pair = (id(reader), id(writer))
        if pair in self._failed:
            return False
        assumed = set(self._assumed)
        if next(self.types(reader, writer, path), None) is None:
            return True
        # Assumptions made while trying this branch do not hold for others.
        self._assumed = assumed
        self._failed.add(pair)
        return False

    def _same_kind(self, reader: Type, writer: Type, path: str) -> Iterator[Incompatibility]:
        if reader.kind != writer.kind:
            if writer.kind not in _PROMOTED.get(reader.kind, ()):
                yield _mismatch(reader, writer, path)
            return
        match reader, writer:
            case Array(), Array():
                yield from self.types(reader.items, writer.items, _below(path, "items"))
            case Map(), Map():
                yield from self.types(reader.values, writer.values, _below(path, "values"))
            case Fixed(), Fixed():
                yield from self._names(reader, writer, path)
                if reader.size != writer.size:
                    where = _below(path, "size")
                    yield Incompatibility(
                        "FIXED_SIZE_MISMATCH",
                        where,
                        f"The size of the fixed type at path '{where}' in the {{reader}} schema is not that in the "
                        "{writer} schema",
                        f"expected: {writer.size}, found: {reader.size}",
                    )
            case Enum(), Enum():
                yield from self._names(reader, writer, path)
                missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
                if missing and reader.default is None:
                    where = _below(path, "symbols")
                    yield Incompatibility(
                        "MISSING_ENUM_SYMBOLS",
                        where,
                        f"The {{reader}} schema is missing enum symbols '[{', '.join(missing)}]' at path '{where}' in "
                        "the {writer} schema",
                        f"[{', '.join(missing)}]",
                    )
            case Record(), Record():
                yield from self._names(reader, writer, path)
                for index, described in enumerate(reader.fields):
                    yield from self._field(described, writer, _below(path, f"fields/{index}"))

    def _names(self, reader: Named, writer: Named, path: str) -> Iterator[Incompatibility]:
        # Namespaces do not matter to Avro's Java library, which compares simple names, then aliases.
        if reader.name != writer.name and writer.full_name not in reader.aliases:
            where = _below(path, "name")
            yield Incompatibility(
                "NAME_MISMATCH",
                where,
                f"The name of the schema has changed (path '{where}')",
                f"expected: {writer.full_name}",
            )

    def _field(self, described: Field, writer: Record, path: str) -> Iterator[Incompatibility]:
        written = {each.name: each for each in writer.fields}
        names = [name for name in (described.name, *described.aliases) if name in written]
        if names:
            yield from self.types(described.type, written[names[0]].type, _below(path, "type"))
        elif not described.has_default:
            yield Incompatibility(
                "READER_FIELD_MISSING_DEFAULT_VALUE",
                path,
                f"The field '{described.name}' at path '{path}' in the {{reader}} schema has no default value and is "
                "missing in the {writer} schema",
                described.name,
            )


def _mismatch(reader: Type, writer: Type, path: str) -> Incompatibility:
    return Incompatibility(
        "TYPE_MISMATCH",
        path,
        f"The type (path '{path}') of a field in the {{reader}} schema does not match with the {{writer}} schema",
        f"reader type: {_label(reader)} not compatible with writer type: {_label(writer)}",
    )


def _label(type_: Type) -> str:
    return type_.kind.upper()


def _below(path: str, part: str) -> str:
    return f"/{part}" if path == "/" else f"{path}/{part}"
