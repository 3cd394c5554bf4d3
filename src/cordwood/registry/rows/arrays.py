"""Arrow arrays as `row_encoder` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cordwood.wire.arrow import bytes_of, number_input
from cordwood.wire.column_input import NumberInput
from cordwood.wire.record import Buffer

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


class Place(NamedTuple):
    """The first arguments of all `Cells`: the path for errors, and which values are null."""

    path: str
    validity: Buffer | None
    first: int
    length: int


def place_of(array: pa.Array, path: str) -> Place:
    validity = bytes_of(array.buffers()[0]) if array.null_count else None
    return Place(path, validity, array.offset, len(array))


def integers(array: pa.Array) -> NumberInput:
    """Integers of any size, booleans, and dates and times in their own unit."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    return number_input(array.cast(pa.int64()))


def milliseconds(array: pa.Array) -> NumberInput:
    """For timestamps: rounded down, also before 1970."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    if array.type.unit in ("us", "ns"):
        array = pc.floor_temporal(array, unit="millisecond")
    return integers(array.cast(pa.timestamp("ms", array.type.tz)))


def microseconds(array: pa.Array) -> NumberInput:
    """For timestamps: rounded down, also before 1970."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type.unit == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return integers(array.cast(pa.timestamp("us", array.type.tz)))


def list_starts(array: pa.Array) -> NumberInput:
    """The offsets of the items of each list, or the entries of each map; one more, for the end."""
    import pyarrow as pa

    offsets = array.offsets
    if len(offsets) == 0:
        offsets = pa.array([0], pa.int32())
    return number_input(offsets.cast(pa.int64()))


def contents_of(array: pa.Array) -> Buffer:
    """Values of a fixed width, including those before the start of a slice."""
    return bytes_of(array.buffers()[1])


def field_of(array: pa.Array, name: str) -> Any:
    """A struct's field; where the struct is null, it is null as well."""
    index = array.type.get_field_index(name)
    return array.flatten()[index] if array.null_count else array.field(index)


def is_integer(kind: pa.DataType, *, most_bits: int = 64) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_signed_integer(kind) and kind.bit_width <= most_bits)


def is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
