"""Avro's schema resolution: the steps from a writer's schema to the columns of a reader's.

An unresolvable value becomes a step that fails, so that only the records that contain it are bad.
"""

from __future__ import annotations

from cordwood.registry.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

from .avro_defaults import encoded_default
from .avro_steps import (
    BooleanStep,
    BytesStep,
    DecimalStep,
    DoubleStep,
    DurationStep,
    EnumStep,
    FloatStep,
    IntegerStep,
    IntegerToFloatStep,
    ListStep,
    OptionalStep,
    RecordStep,
    SkipBytesStep,
    SkipFixedStep,
    SkipIntegerStep,
    SkipNamedStep,
    UnionStep,
    UuidStep,
)
from .avro_types import collapsed_numbers, logical_type
from .builders import BooleanColumn, BytesColumn, Column, ListColumn, NumberColumn, StructColumn
from .steps import ConstantStep, FailStep, MemberStep, NullStep, Step

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_TIME_SCALES = {"millis": 1_000, "micros": 1}
_DAY_MS = 86_400_000


def avro_steps(writer: Type, reader: Type, column: Column) -> Step:
    """`column` is `new_column` of `avro_column(reader)`."""
    return _Resolver().step(writer, reader, column)


class _Resolver:
    def __init__(self) -> None:
        self._skips: dict[int, SkipNamedStep] = {}

    def step(self, writer: Type, reader: Type, column: Column) -> Step:
        if isinstance(writer, Union):
            return self._of_union(writer, reader, column)
        if isinstance(reader, Union):
            return self._to_union(writer, reader, column)
        if not _matches(writer, reader):
            return FailStep(f"the writer's {_name(writer)} cannot be read as {_name(reader)}")
        match writer, reader:
            case Record(), Record():
                return self._record(writer, reader, column)
            case Array(), Array():
                assert isinstance(column, ListColumn)
                return ListStep(column, self.step(writer.items, reader.items, column.items))
            case Map(), Map():
                return self._map(writer, reader, column)
            case Enum(), Enum():
                return _enum(writer, reader, column)
            case Fixed(), Fixed():
                return _fixed(writer, reader, column)
        assert isinstance(writer, Primitive)
        assert isinstance(reader, Primitive)
        return _primitive(writer.name, reader, column)

    # ---- unions

    def _of_union(self, writer: Union, reader: Type, column: Column) -> Step:
        kinds = [branch.kind for branch in writer.branches]
        steps = [self.step(branch, reader, column) for branch in writer.branches]
        if len(kinds) == 2 and "null" in kinds:
            null_branch = kinds.index("null")
            if isinstance(steps[null_branch], NullStep):
                return OptionalStep(column, steps[1 - null_branch], null_branch)
        return UnionStep(steps)

    def _to_union(self, writer: Type, reader: Union, column: Column) -> Step:
        """The first branch of the same type, or else the first that the writer's can be promoted to."""
        if writer.kind == "null" and any(branch.kind == "null" for branch in reader.branches):
            return NullStep(column)
        branches = [branch for branch in reader.branches if branch.kind != "null"]
        places = [index for index, branch in enumerate(branches) if _is_same(writer, branch)]
        places += [index for index, branch in enumerate(branches) if _matches(writer, branch)]
        if not places:
            return FailStep(f"the writer's {_name(writer)} is in no branch of the reader's union")
        place = places[0]
        if len(branches) == 1:
            return self.step(writer, branches[0], column)
        if collapsed_numbers(branches) is not None:
            assert isinstance(column, NumberColumn)
            return _number(writer.kind, branches[place].kind, column)
        assert isinstance(column, StructColumn)
        return MemberStep(column, place, self.step(writer, branches[place], column.fields[place]))

    # ---- records, maps

    def _record(self, writer: Record, reader: Record, column: Column) -> Step:
        assert isinstance(column, StructColumn)
        by_name = {field.name: index for index, field in enumerate(reader.fields)}
        written = {field.name for field in writer.fields}
        for index, field in enumerate(reader.fields):
            if field.name not in written:
                for alias in field.aliases:
                    by_name.setdefault(alias, index)
        steps: list[Step] = []
        names: list[str] = []
        found = set()
        for written_field in writer.fields:
            place = by_name.get(written_field.name)
            names.append(written_field.name)
            if place is None or place in found:
                steps.append(self.skip(written_field.type))
                continue
            found.add(place)
            names[-1] = reader.fields[place].name
            steps.append(self.step(written_field.type, reader.fields[place].type, column.fields[place]))
        for index, field in enumerate(reader.fields):
            if index not in found:
                steps.append(self._default(field, column.fields[index]))
                names.append(field.name)
        return RecordStep(column, steps, names)

    def _default(self, field: Field, column: Column) -> Step:
        if not field.has_default:
            return FailStep("the writer's schema has no such field, and the reader's has no default for it")
        try:
            content = encoded_default(field.type, field.default)
        except ValueError as error:
            return FailStep(f"the default of the reader's schema cannot be used: {error}")
        return ConstantStep(self.step(field.type, field.type, column), content)

    def _map(self, writer: Map, reader: Map, column: Column) -> Step:
        assert isinstance(column, ListColumn)
        entries = column.items
        assert isinstance(entries, StructColumn)
        keys, values = entries.fields
        assert isinstance(keys, BytesColumn)
        steps = [BytesStep(keys, True), self.step(writer.values, reader.values, values)]
        return ListStep(column, RecordStep(entries, steps, ["key", "value"]))

    # ---- values without a column

    def skip(self, writer: Type) -> Step:
        match writer:
            case Record():
                known = self._skips.get(id(writer))
                if known is None:
                    known = self._skips[id(writer)] = SkipNamedStep()
                    fields = [self.skip(field.type) for field in writer.fields]
                    known.set(RecordStep(None, fields, [field.name for field in writer.fields]))
                return known
            case Array():
                return ListStep(None, self.skip(writer.items))
            case Map():
                return ListStep(None, RecordStep(None, [SkipBytesStep(), self.skip(writer.values)], ["key", "value"]))
            case Union():
                return UnionStep([self.skip(branch) for branch in writer.branches])
            case Enum():
                return SkipIntegerStep()
            case Fixed():
                return SkipFixedStep(writer.size)
        sizes = {"null": 0, "boolean": 1, "float": 4, "double": 8}
        if writer.kind in sizes:
            return SkipFixedStep(sizes[writer.kind])
        return SkipBytesStep() if writer.kind in ("bytes", "string") else SkipIntegerStep()


def _matches(writer: Type, reader: Type) -> bool:
    """Returns whether values can be read, judging by the outermost types."""
    return _is_same(writer, reader) or reader.kind in _PROMOTIONS.get(writer.kind, ())


def _is_same(writer: Type, reader: Type) -> bool:
    """Namespaces do not count, names do; those of records only within unions, where the caller sees to it."""
    if writer.kind != reader.kind:
        return False
    if isinstance(writer, Named) and isinstance(reader, Named):
        names = {reader.name, *(alias.rpartition(".")[2] for alias in reader.aliases)}
        if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size != reader.size:
            return False
        return writer.name in names
    return True


def _name(kind: Type) -> str:
    if isinstance(kind, Fixed):
        return f"{kind.kind} {kind.full_name} of {kind.size} bytes"
    return f"{kind.kind} {kind.full_name}" if isinstance(kind, Named) else kind.kind


# ---- single values


def _primitive(written: str, reader: Primitive, column: Column) -> Step:
    read = reader.name
    if read == "null":
        return NullStep(column)
    if read == "boolean":
        assert isinstance(column, BooleanColumn)
        return BooleanStep(column)
    if read in ("bytes", "string"):
        if logical_type(reader) is not None and reader.properties.get("logicalType") == "decimal":
            assert isinstance(column, NumberColumn)
            return DecimalStep(column, int(reader.properties["precision"]))
        assert isinstance(column, BytesColumn)
        return BytesStep(column, read == "string")
    assert isinstance(column, NumberColumn)
    logical = str(reader.properties.get("logicalType"))
    if logical_type(reader) is not None:
        if logical == "time-millis":
            return IntegerStep(column, 0, _DAY_MS - 1, 1_000_000)
        if logical == "time-micros":
            return IntegerStep(column, 0, _DAY_MS * 1_000 - 1, 1_000)
        if "timestamp" in logical:
            return _timestamp(written, logical, column)
    return _number(written, read, column)


def _number(written: str, read: str, column: NumberColumn) -> Step:
    if written == "float":
        return FloatStep(column)
    if written == "double":
        return DoubleStep(column)
    if read in ("float", "double"):
        return IntegerToFloatStep(column)
    return IntegerStep(column, *(_INT if written == "int" else _LONG))


def _timestamp(written: str, logical: str, column: NumberColumn) -> Step:
    """In microseconds, the only unit that Spark has."""
    least, most = _INT if written == "int" else _LONG
    unit = logical.rpartition("-")[2]
    if unit == "nanos":
        return IntegerStep(column, least, most, -1_000)
    scale = _TIME_SCALES[unit]
    return IntegerStep(column, max(least, -(_LONG[1] // scale)), min(most, _LONG[1] // scale), scale)


def _enum(writer: Enum, reader: Enum, column: Column) -> Step:
    assert isinstance(column, BytesColumn)
    known = set(reader.symbols)
    symbols = [symbol if symbol in known else reader.default for symbol in writer.symbols]
    return EnumStep(column, [None if symbol is None else symbol.encode() for symbol in symbols])


def _fixed(writer: Fixed, reader: Fixed, column: Column) -> Step:
    logical = logical_type(reader)
    match reader.properties.get("logicalType"):
        case "decimal" if logical is not None:
            assert isinstance(column, NumberColumn)
            return DecimalStep(column, int(reader.properties["precision"]), writer.size)
        case "uuid" if logical is not None:
            assert isinstance(column, BytesColumn)
            return UuidStep(column)
        case "duration" if logical is not None:
            assert isinstance(column, StructColumn)
            return DurationStep(column, [part for part in column.fields if isinstance(part, NumberColumn)])
    assert isinstance(column, BytesColumn)
    return BytesStep(column, False, writer.size)
