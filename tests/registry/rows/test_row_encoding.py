"""Arrow columns to records' bytes, held against what the formats' own libraries read."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st

from cordwood.registry.client import RegisteredSchema
from cordwood.registry.rows import avro_rows, encoding, protobuf_rows, row_encoder
from cordwood.registry.rows.deriving import derived_schema, type_name_of
from cordwood.registry.rows.encoding import RowEncoding
from cordwood.registry.rows.row_encoder import CannotEncode
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.schema import AVRO, JSON, PROTOBUF, Schema
from cordwood.registry.serializers.codecs import decode_avro, decode_json, decode_protobuf
from cordwood.registry.serializers.framing import decode_indexes, split_prefix
from cordwood.wire import arrow
from tests.wire.rooms import interpreted_room

ID = 77
ADDRESS = pa.struct([pa.field("street", pa.string()), pa.field("number", pa.int32())])
ROWS = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("small", pa.int16()),
        pa.field("ratio", pa.float32()),
        pa.field("price", pa.float64()),
        pa.field("paid", pa.bool_()),
        pa.field("name", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("address", ADDRESS),
        pa.field("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("addresses", pa.list_(pa.field("item", ADDRESS, nullable=False))),
        pa.field("counts", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
    ]
)
floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
addresses = st.fixed_dictionaries(
    {"street": st.none() | st.text(), "number": st.none() | st.integers(-(2**31), 2**31 - 1)}
)
instants = st.integers(-(10**15), 10**15).map(lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, 0, micros))
row_values = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-(2**15), 2**15 - 1),
        "ratio": st.none() | floats,
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "paid": st.none() | st.booleans(),
        "name": st.none() | st.text(),
        "raw": st.none() | st.binary(),
        "at": st.none() | instants,
        "address": st.none() | addresses,
        "tags": st.none() | st.lists(st.text(), max_size=3),
        "addresses": st.none() | st.lists(addresses, max_size=3),
        "counts": st.none() | st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1), max_size=3),
    }
)


@pytest.fixture(autouse=True, scope="module", params=["compiled", "interpreted"])
def encoder(request: pytest.FixtureRequest) -> Iterator[None]:
    """The compiled module is tested twice: as it was built, and as the same source, interpreted."""
    if request.param == "compiled":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        interpreted, inputs = _interpreted()
        for name in ("BinaryInput", "NumberInput"):
            patch.setattr(arrow, name, getattr(inputs, name))
        for module in (avro_rows, protobuf_rows, encoding):
            for name in vars(module).keys() & vars(interpreted).keys():
                if getattr(vars(row_encoder).get(name), "__module__", "") == row_encoder.__name__:
                    patch.setattr(module, name, getattr(interpreted, name))
        yield


def test_avro_rows_are_read_back_by_fastavro() -> None:
    @given(st.lists(st.none() | row_values, max_size=5), st.integers(0, 2))
    def check(rows: list[dict[str, Any] | None], cut: int) -> None:
        schema = parsed(AVRO, derived_schema(AVRO, ROWS, "Row", None))
        read = [None if data is None else decode_avro(schema, data, None) for data in encoded(schema, rows, cut)]  # type: ignore[arg-type]
        assert read == rows[cut:]

    check()


def test_protobuf_rows_are_read_back_by_protobuf() -> None:
    @given(st.lists(st.none() | row_values, max_size=5), st.integers(0, 2))
    def check(rows: list[dict[str, Any] | None], cut: int) -> None:
        schema = parsed(PROTOBUF, derived_schema(PROTOBUF, ROWS, "Row", None))
        for data, row in zip(encoded(schema, rows, cut), rows[cut:], strict=True):
            if row is None or data is None:
                assert (data, row) == (None, None)
                continue
            indexes, payload = decode_indexes(data)
            message = decode_protobuf(schema, indexes, payload)  # type: ignore[arg-type]
            # An explicit copy by the library writes the same fields.
            again = type(message).FromString(message.SerializeToString(deterministic=True))
            assert again == message
            assert protobuf_row(message) == expected_of_protobuf(row)

    check()


def test_json_rows_are_read_back_and_valid() -> None:
    @given(st.lists(st.none() | row_values, max_size=5))
    def check(rows: list[dict[str, Any] | None]) -> None:
        schema = parsed(JSON, derived_schema(JSON, ROWS, "Row", None))
        for data, row in zip(encoded(schema, rows), rows, strict=True):
            if row is None or data is None:
                assert (data, row) == (None, None)
                continue
            read = decode_json(schema, data)  # type: ignore[arg-type]
            assert {name for name, value in row.items() if value is not None} == read.keys()
            for name in ("id", "small", "price", "paid", "name", "tags", "counts"):
                assert read.get(name) == row[name]

    check()


DECIMALS = [Decimal(unscaled).scaleb(-2) for unscaled in (0, 1, -1, 127, 128, -128, -129, 10**37, -(10**37))]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        {"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 2},
    ],
)
def test_decimals_have_the_bytes_that_avro_gives_them(kind: dict[str, Any]) -> None:
    schema = parsed(AVRO, json.dumps(record({"d": kind})))
    rows = [{"d": value} for value in DECIMALS]
    data = encoded(schema, rows, of=pa.struct([("d", pa.decimal128(38, 2))]))
    assert [decode_avro(schema, each, None) for each in data if each is not None] == rows  # type: ignore[arg-type]


def test_dates_and_local_times_have_logical_types() -> None:
    of = pa.struct(
        [pa.field("day", pa.date32(), nullable=False), pa.field("local", pa.timestamp("us"), nullable=False)]
    )
    schema = parsed(AVRO, derived_schema(AVRO, of, "Row", None))
    rows = [{"day": date(1969, 12, 31), "local": datetime(1969, 12, 31, 23, 59, 59, 999_999)}]
    (data,) = encoded(schema, rows, of=of)
    assert data is not None
    assert decode_avro(schema, data, None) == rows[0]  # type: ignore[arg-type]


def test_timestamps_are_rounded_down_to_milliseconds_before_1970_as_well() -> None:
    schema = parsed(AVRO, json.dumps(record({"at": {"type": "long", "logicalType": "timestamp-millis"}})))
    rows = [{"at": datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)}]
    (data,) = encoded(schema, rows, of=pa.struct([("at", pa.timestamp("us", "UTC"))]))
    assert data is not None
    assert decode_avro(schema, data, None)["at"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)  # type: ignore[arg-type]


def test_fields_without_a_column_take_their_default_or_null() -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "state", "type": "string", "default": "new"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "note", "type": ["string", "null"]},
    ]
    schema = parsed(AVRO, json.dumps({"type": "record", "name": "R", "fields": fields}))
    (data,) = encoded(schema, [{"id": 1}], of=pa.struct([("id", pa.int64())]))
    assert data is not None
    read = decode_avro(schema, data, None)  # type: ignore[arg-type]
    assert read == {"id": 1, "state": "new", "raw": b"\xff", "note": None}


def test_enums_fixed_and_unions_of_several_types_are_written() -> None:
    kinds = {
        "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
        "mac": {"type": "fixed", "name": "Mac", "size": 2},
        "either": ["null", "string", "long"],
    }
    schema = parsed(AVRO, json.dumps(record(kinds)))
    of = pa.struct(
        [
            ("colour", pa.string()),
            ("mac", pa.binary()),
            ("either", pa.struct([("member0", pa.string()), ("member1", pa.int64())])),
        ]
    )
    rows = [
        {"colour": "BLUE", "mac": b"ab", "either": {"member0": None, "member1": 5}},
        {"colour": "RED", "mac": b"cd", "either": {"member0": "x", "member1": None}},
        {"colour": "RED", "mac": b"cd", "either": None},
    ]
    read = [decode_avro(schema, each, None) for each in encoded(schema, rows, of=of) if each is not None]  # type: ignore[arg-type]
    assert [row["either"] for row in read] == [5, "x", None]
    assert (read[0]["colour"], read[0]["mac"]) == ("BLUE", b"ab")
    with pytest.raises(CannotEncode, match=r"value\.colour is 'GREEN', which is not a symbol"):
        encoded(schema, [{"colour": "GREEN", "mac": b"ab", "either": None}], of=of)
    with pytest.raises(CannotEncode, match=r"value\.mac does not have 2 bytes"):
        encoded(schema, [{"colour": "RED", "mac": b"abc", "either": None}], of=of)


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (pa.struct([("id", pa.string())]), r"value\.id is of type string, and its schema has long there"),
        (
            pa.struct([("id", pa.int64()), ("more", pa.int64())]),
            r"has a column more, and the schema's record R no such",
        ),
        (pa.struct([]), r"there is no column value\.id, and its field has no default"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_any_row(of: pa.DataType, reason: str) -> None:
    schema = parsed(AVRO, json.dumps(record({"id": "long"})))
    with pytest.raises(CannotEncode, match=reason):
        RowEncoding(RegisteredSchema(ID, "", schema), "value").check(of)


def test_a_null_where_the_schema_has_none_is_refused_by_its_path() -> None:
    schema = parsed(AVRO, json.dumps(record({"id": "long"})))
    with pytest.raises(CannotEncode, match=r"value\.id is null, and its schema does not allow that"):
        encoded(schema, [{"id": None}], of=pa.struct([("id", pa.int64())]))


def test_a_derived_version_keeps_names_and_field_numbers_and_is_compatible() -> None:
    first = pa.struct([pa.field("id", pa.int64()), pa.field("address", ADDRESS), pa.field("gone", pa.string())])
    second = pa.struct([pa.field("added", pa.bool_()), pa.field("address", ADDRESS), pa.field("id", pa.int64())])
    for kind in (AVRO, PROTOBUF):
        old = parsed(kind, derived_schema(kind, first, "Order", None))
        new = parsed(kind, derived_schema(kind, second, "Other", old))
        assert new.incompatibilities(old) == []
        assert "Order" in new.canonical
        assert "Other" not in new.canonical
    assert "added = 4" in new.canonical
    assert "reserved 3" in new.canonical


def test_a_topics_name_becomes_a_types_name() -> None:
    assert [type_name_of(topic) for topic in ("orders", "web.page-views", "9lives", "...")] == [
        "Orders",
        "WebPageViews",
        "Record9lives",
        "Record",
    ]


def parsed(kind: str, text: str) -> Schema:
    return parse_schema(kind, text)


def record(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def encoded(schema: Schema, rows: list[Any], cut: int = 0, *, of: pa.DataType = ROWS) -> list[bytes | None]:
    """Without the prefix; `cut` makes a slice of a longer array."""
    as_pairs = [None if row is None else {name: _pairs(value, name) for name, value in row.items()} for row in rows]
    array = pa.array(as_pairs, of).slice(cut)
    made = RowEncoding(RegisteredSchema(ID, "", schema), "value").encode(array)
    made.validate(full=True)
    return [None if data is None else _payload(data) for data in made.to_pylist()]


def _pairs(value: Any, name: str) -> Any:
    return list(value.items()) if isinstance(value, dict) and name == "counts" else value


def _payload(data: bytes) -> bytes:
    id_, rest = split_prefix(data)
    assert id_ == ID
    return rest


def protobuf_row(message: Any) -> dict[str, Any]:
    read = {field.name: value for field, value in message.ListFields()}
    if "at" in read:
        read["at"] = (read["at"].seconds, read["at"].nanos)
    for name in ("address", "addresses"):
        if name in read:
            each = read[name]
            made = [MessageToDict(one) for one in ([each] if name == "address" else each)]
            read[name] = made[0] if name == "address" else made
    return {name: dict(value) if name == "counts" else value for name, value in read.items()}


def expected_of_protobuf(row: dict[str, Any]) -> dict[str, Any]:
    """Empty lists and maps, and zero where there is no presence, are not distinguished from absence."""
    expected = {name: value for name, value in row.items() if value is not None and value not in ([], {})}
    if expected["id"] == 0:
        del expected["id"]
    if "at" in expected:
        micros = (expected["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        expected["at"] = (micros // 10**6, micros % 10**6 * 1000)
    for name in ("address", "addresses"):
        if name in expected:
            each = expected[name] if name == "addresses" else [expected[name]]
            made = [{key: value for key, value in one.items() if value is not None} for one in each]
            expected[name] = made if name == "addresses" else made[0]
    if expected.get("address") is None and row["address"] is not None:
        expected["address"] = {}
    return expected


def _interpreted() -> tuple[ModuleType, Any]:
    """The module from its source, and the inputs that it takes then."""
    room = interpreted_room()
    source = str(row_encoder.__file__)
    path = source[: source.index("row_encoder") + len("row_encoder")] + ".py"
    spec = importlib.util.spec_from_file_location(row_encoder.__name__, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    saved = sys.modules.get("cordwood.wire.column_input")
    sys.modules["cordwood.wire.column_input"] = room.column_input
    try:
        spec.loader.exec_module(module)
    finally:
        if saved is not None:
            sys.modules["cordwood.wire.column_input"] = saved
    # One class of errors, whichever raises them.
    vars(module)["CannotEncode"] = CannotEncode
    return module, room.column_input
