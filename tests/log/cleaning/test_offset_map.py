"""The map from keys to offsets, compiled and not."""

import importlib.util
import random
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

import cordwood.log.cleaning.offset_map as installed

SOURCE = Path(__file__).parents[3] / "src" / "cordwood" / "log" / "cleaning" / "offset_map.py"


def interpreted() -> ModuleType:
    loader = SourceFileLoader("interpreted_offset_map", str(SOURCE))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(params=["installed", "interpreted"])
def room(request: pytest.FixtureRequest) -> ModuleType:
    return installed if request.param == "installed" else interpreted()


def test_it_holds_the_last_offset_of_each_key(room: ModuleType) -> None:
    source = random.Random(3)
    offsets = room.OffsetMap(1 << 16, 0.9, 2000)
    model: dict[bytes, int] = {}
    for offset in range(5000):
        key = source.randbytes(source.choice([0, 1, 2, 40]))
        if key not in model and len(model) == 2000:
            continue
        assert offsets.put_all([(offset, key, True)], 0)
        model[key] = offset
    assert offsets.count == len(model)
    assert {key: offsets.get(key) for key in model} == model
    assert offsets.get(b"not there, of 40 bytes or some such size") == -1


def test_it_takes_as_many_keys_as_its_capacity_and_those_again(room: ModuleType) -> None:
    offsets = room.OffsetMap(24 * 101, 0.9, 10**9)
    assert (offsets.slots, offsets.capacity) == (101, 90)
    keys = [(offset, b"%d" % offset, True) for offset in range(90)]
    assert offsets.put_all(keys, 0)
    assert not offsets.put_all([(90, b"another", True)], 0)
    assert offsets.put_all([(91, b"7", True)], 0)
    assert [offsets.get(b"%d" % number) for number in range(90)] == [*range(7), 91, *range(8, 90)]


@pytest.mark.parametrize("max_bytes", [0, 24, 24 * 2, 24 * 3, 24 * 4])
def test_the_smallest_maps_take_a_key_and_end_every_search(room: ModuleType, max_bytes: int) -> None:
    offsets = room.OffsetMap(max_bytes, 1.0, 10)
    assert offsets.capacity >= 1
    put = sum(offsets.put_all([(number, b"%d" % number, True)], 0) for number in range(10))
    assert put == offsets.capacity == offsets.count
    assert sum(offsets.get(b"%d" % number) >= 0 for number in range(20)) == put


def test_it_is_no_larger_than_allowed_or_needed(room: ModuleType) -> None:
    assert room.OffsetMap(24_000, 0.9, 10**9).slots == 997
    few = room.OffsetMap(1 << 30, 0.9, 100)
    assert 100 <= few.capacity <= 200


@pytest.mark.parametrize("load_factor", [0.1, 0.5, 0.9, 1.0])
def test_the_keys_that_are_expected_fit(room: ModuleType, load_factor: float) -> None:
    for expected in (0, 1, 2, 3, 10, 1000):
        assert room.OffsetMap(1 << 30, load_factor, expected).capacity >= expected


def test_keys_before_the_first_offset_and_missing_keys_are_not_noted(room: ModuleType) -> None:
    offsets = room.OffsetMap(1 << 10, 0.9, 10)
    assert offsets.put_all([(4, b"a", True), (5, b"b", True), (6, None, True)], 5)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.count) == (-1, 5, 1)


def test_only_the_last_record_of_a_key_is_retained(room: ModuleType) -> None:
    offsets = room.OffsetMap(1 << 10, 0.9, 10)
    keys = [(0, b"a", True), (1, b"b", True), (2, b"a", False), (3, b"c", True)]
    offsets.put_all(keys, 1)
    older = [*keys, (4, b"unknown", True), (5, None, True), (6, b"c", True)]
    assert offsets.retain(older, 6, True) == (bytearray([0, 1, 1, 1, 1, 0, 1]), 1)
    assert offsets.retain(older, 6, False) == (bytearray([0, 1, 0, 1, 1, 0, 1]), 1), "the tombstone has had its time"


def test_records_past_the_end_of_the_map_are_retained_whatever_they_are(room: ModuleType) -> None:
    offsets = room.OffsetMap(1 << 10, 0.9, 10)
    offsets.put_all([(9, b"a", True)], 0)
    assert offsets.retain([(4, b"a", True), (5, b"a", True), (6, None, True), (7, b"b", False)], 5, False) == (
        bytearray([0, 1, 1, 1]),
        0,
    )
