"""Protobuf to columns: what Google's own library writes, and reads, is what comes out."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.registry.columns.avro_types import Untypable
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.protobuf.schema import ProtobufSchema
from cordwood.registry.serializers.codecs import message_class
from tests.registry.columns_room import COMPILED, INTERPRETED, ColumnsRoom, framed, in_each_room

TEXT = """
syntax = "proto3";
package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message All {
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float fl = 11; double db = 12; bool yes = 13; string text = 14; bytes raw = 15;
  Kind kind = 16;
  repeated sint32 packed = 17; repeated int64 loose = 18 [packed = false]; repeated string texts = 19;
  repeated Inner inners = 20;
  map<string, int32> counts = 21; map<int64, Inner> by_number = 22;
  oneof way { string a = 23; int32 b = 24; Inner c = 25; }
  optional int32 maybe = 26;
  Inner inner = 27;
  google.protobuf.Int64Value wrapped = 28;
  uint32 far = 5000;
}
message Inner { int32 n = 1; string name = 2; repeated int32 more = 3; }
enum Kind { ZERO = 0; ONE = 1; NEG = -1; }
"""


def parsed(text: str) -> ProtobufSchema:
    schema = parse_schema("PROTOBUF", text)
    assert isinstance(schema, ProtobufSchema)
    return schema


SCHEMA = parsed(TEXT)
All: Any = message_class(SCHEMA, (0,))
Inner: Any = message_class(SCHEMA, (1,))
KINDS = {0: "ZERO", 1: "ONE", -1: "NEG"}

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
SHORT = st.text(max_size=5)
INNER = st.builds(Inner, n=INT32, name=SHORT, more=st.lists(INT32, max_size=3))


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """Each field present or not."""
    strategies: dict[str, st.SearchStrategy[Any]] = {
        "i32": INT32,
        "i64": INT64,
        "u32": UINT32,
        "u64": UINT64,
        "s32": INT32,
        "s64": INT64,
        "f32": UINT32,
        "f64": UINT64,
        "sf32": INT32,
        "sf64": INT64,
        "fl": st.floats(width=32, allow_nan=False),
        "db": st.floats(allow_nan=False),
        "yes": st.booleans(),
        "text": SHORT,
        "raw": st.binary(max_size=5),
        "kind": st.sampled_from([0, 1, -1, 77]),
        "packed": st.lists(INT32, max_size=4),
        "loose": st.lists(INT64, max_size=4),
        "texts": st.lists(SHORT, max_size=3),
        "inners": st.lists(INNER, max_size=3),
        "maybe": INT32,
        "inner": INNER,
        "far": UINT32,
    }
    chosen = draw(st.sets(st.sampled_from(sorted(strategies))))
    message = All(**{name: draw(strategies[name]) for name in chosen})
    for name, number in draw(st.dictionaries(SHORT, INT32, max_size=3)).items():
        message.counts[name] = number
    for number, inner in draw(st.dictionaries(INT64, INNER, max_size=2)).items():
        message.by_number[number].CopyFrom(inner)
    match draw(st.sampled_from(["a", "b", "c", ""])):
        case "a":
            message.a = draw(SHORT)
        case "b":
            message.b = draw(INT32)
        case "c":
            message.c.CopyFrom(draw(INNER))
    if draw(st.booleans()):
        message.wrapped.value = draw(INT64)
    return message


def expected(message: Any) -> dict[str, Any]:
    plain = ("i32", "i64", "u32", "s32", "s64", "f32", "sf32", "sf64", "fl", "db", "yes", "text", "raw", "far")
    found: dict[str, Any] = {name: getattr(message, name) for name in plain}
    found |= {name: Decimal(getattr(message, name)) for name in ("u64", "f64")}
    found["kind"] = KINDS.get(message.kind, str(message.kind))
    found |= {name: list(getattr(message, name)) for name in ("packed", "loose", "texts")}
    found["inners"] = [inner(each) for each in message.inners]
    found["counts"] = sorted(message.counts.items())
    found["by_number"] = sorted((key, inner(each)) for key, each in message.by_number.items())
    found |= {name: getattr(message, name) if message.HasField(name) else None for name in ("a", "b", "maybe")}
    found |= {name: inner(getattr(message, name)) if message.HasField(name) else None for name in ("c", "inner")}
    found["wrapped"] = message.wrapped.value if message.HasField("wrapped") else None
    return found


def inner(message: Any) -> dict[str, Any]:
    return {"n": message.n, "name": message.name, "more": list(message.more)}


def sorted_maps(row: dict[str, Any]) -> dict[str, Any]:
    """Maps are in the order of the wire, which is any."""
    return row | {
        "counts": sorted(row["counts"]),
        "by_number": sorted(row["by_number"], key=lambda entry: entry[0]),
    }


def value(message: Any) -> bytes:
    return framed(b"\0" + message.SerializeToString())


@in_each_room
@settings(max_examples=150, deadline=None)
@given(st.lists(messages(), max_size=4))
def test_data_of_protobuf_is_read(room: ColumnsRoom, written: list[Any]) -> None:
    rows, bad = room.decode(SCHEMA, [value(each) for each in written])
    assert bad == []
    assert [sorted_maps(row) for row in rows] == [expected(each) for each in written]


@in_each_room
@settings(max_examples=100, deadline=None)
@given(messages(), messages())
def test_messages_one_after_the_other_are_merged_as_protobuf_merges_them(
    room: ColumnsRoom, first: Any, second: Any
) -> None:
    both = first.SerializeToString() + second.SerializeToString()
    rows, bad = room.decode(SCHEMA, [framed(b"\0" + both)])
    assert bad == []
    merged = expected(All.FromString(both))
    assert keyed(rows[0]) == merged


@settings(max_examples=400, deadline=None)
@given(messages(), st.data())
def test_damaged_messages_cost_only_their_own_rows_in_each_room(message: Any, data: st.DataObject) -> None:
    damaged = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(0, 2)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    values = [value(message), framed(b"\0" + damaged), value(message)]
    rows, bad = COMPILED.decode(SCHEMA, values)
    assert sorted_maps(rows[0]) == sorted_maps(rows[2]) == expected(message)
    assert repr(INTERPRETED.decode(SCHEMA, values)) == repr((rows, bad))
    try:
        found = All.FromString(bytes(damaged))
    except DecodeError:
        assert [row for row, _ in bad] == [1]
    else:
        assert bad == []
        doubtful = maps_with_unknown_fields(found)
        read, wanted = keyed(rows[1]), expected(found)
        assert [read[name] for name in read if name not in doubtful] == [
            wanted[name] for name in read if name not in doubtful
        ]


def maps_with_unknown_fields(message: Any) -> set[str]:
    """The library passes over a map's entry with a field that it does not know; Java's takes it, as we do."""
    others = UnknownFieldSet(message)
    unknown = {others[index].field_number for index in range(len(others))}
    return {name for name in ("counts", "by_number") if All.DESCRIPTOR.fields_by_name[name].number in unknown}


def keyed(row: dict[str, Any]) -> dict[str, Any]:
    """In Arrow, as on the wire, a key may come again; the last one counts."""
    return row | {name: sorted(dict(row[name]).items()) for name in ("counts", "by_number")}


@in_each_room
def test_the_reader_uses_numbers_and_skips_what_it_does_not_know(room: ColumnsRoom) -> None:
    reader = parsed(
        'syntax = "proto3"; package p; message All { int64 renamed = 2; string i32 = 1; Gone gone = 99; }\n'
        "message Gone { int32 x = 1; }"
    )
    rows, bad = room.decode(reader, [value(All(i64=5, i32=7, far=1))], {1: SCHEMA})
    assert (rows, bad) == ([{"i32": "", "renamed": 5, "gone": None}], [])


@in_each_room
def test_times_and_what_is_json(room: ColumnsRoom) -> None:
    schema = parsed(
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";'
        'import "google/protobuf/struct.proto";'
        "message T { google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2;"
        "google.protobuf.Struct any = 3; T before = 4; }"
    )
    message: Any = message_class(schema, (0,))()
    message.at.FromJsonString("1969-12-31T23:59:59.5Z")
    message.took.FromJsonString("-1.5s")
    message.any["x"] = [1, None]
    message.before.SetInParent()
    rows, bad = room.decode(schema, [value(message), framed(b"\0")])
    assert bad == []
    assert rows[0] == {
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=datetime.UTC),
        "took": datetime.timedelta(seconds=-1.5),
        "any": '{"x": [1.0, null]}',
        "before": "{}",
    }
    assert rows[1] == {"at": None, "took": None, "any": None, "before": None}


@in_each_room
@pytest.mark.parametrize(
    ("tag", "number"), [(b"\x00", 0), (b"\x80\x80\x80\x80\x10", 2**29), (b"\xf8" + b"\xff" * 8 + b"\x01", 2**61 - 1)]
)
def test_numbers_that_no_field_can_have_are_bad(room: ColumnsRoom, tag: bytes, number: int) -> None:
    rows, bad = room.decode(SCHEMA, [framed(b"\0" + tag + b"\x01")])
    assert (rows, bad) == ([None], [(0, f"a field has the number {number}")])


@in_each_room
def test_required_fields_of_proto2_must_be_there(room: ColumnsRoom) -> None:
    schema = parsed('syntax = "proto2"; message R { required int32 x = 1; optional int32 y = 2; }')
    message: Any = message_class(schema, (0,))
    rows, bad = room.decode(schema, [value(message(x=1)), framed(b"\0")])
    assert rows == [{"x": 1, "y": None}, None]
    assert bad == [(1, "at x: a required field is missing")]


@in_each_room
def test_a_message_of_the_file_is_chosen_by_name_and_found_by_its_index(room: ColumnsRoom) -> None:
    payload = b"\x02\x02" + Inner(n=3).SerializeToString()
    rows, bad = room.decode(SCHEMA, [framed(payload), framed(b"\0"), framed(b"\x02\x08")], message="p.Inner")
    assert rows == [{"n": 3, "name": "", "more": []}, None, None]
    assert bad == [(1, "it is a p.All, not a p.Inner"), (2, "the schema has no message [4]")]
    with pytest.raises(ValueError, match=r"no message p\.Other"):
        room.plan_for(SCHEMA, "p.Other")


def test_groups_have_no_column() -> None:
    with pytest.raises(Untypable, match="group"):
        COMPILED.plan_for(parsed('syntax = "proto2"; message G { optional group Part = 1 { optional int32 x = 2; } }'))
