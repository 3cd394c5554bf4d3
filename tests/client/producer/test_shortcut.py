"""Records that go into a batch that is open, compiled and not; all others go the long way."""

import importlib
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cordwood.client import producer
from cordwood.client.cluster import Cluster, PartitionInfo, Topic, TopicPartition
from cordwood.wire.batch_builder import BatchBuilder
from cordwood.wire.hashing import partition_for_key
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.records import decode_batch

MODULES = ("deliveries", "shortcut")
LONG_WAY = "went the long way"
NOW_MS = 1_700_000_000_000


def interpreted() -> ModuleType:
    """Both modules, since they share types."""
    names = [f"{producer.__name__}.{module}" for module in MODULES]
    built = {name: importlib.import_module(name) for name in names}
    try:
        for name in names:
            del sys.modules[name]
            path = Path(producer.__path__[0]) / f"{name.rpartition('.')[2]}.py"
            loader = SourceFileLoader(name, str(path))
            spec = spec_from_loader(name, loader)
            assert spec is not None
            sys.modules[name] = module_from_spec(spec)
            loader.exec_module(sys.modules[name])
        return sys.modules[names[-1]]
    finally:
        sys.modules.update(built)


@pytest.fixture(params=["installed", "interpreted"])
def stage(request: pytest.FixtureRequest) -> Iterator["Stage"]:
    room = interpreted() if request.param == "interpreted" else importlib.import_module(f"{producer.__name__}.shortcut")
    stage = Stage(room)
    yield stage
    assert not stage.lock.locked()


class Stage:
    """A shortcut, of a topic with four partitions; batches are opened by the test."""

    def __init__(self, room: Any) -> None:
        partitions = tuple(PartitionInfo(index, 1, 0, (), (), ()) for index in range(4))
        self.topic = Topic("orders", ZERO_UUID, False, partitions)
        self.room = room
        self.cluster = self.newer_cluster()
        self.lock = threading.Lock()
        self.sticky = room.Sticky(self.topic, 2, 500, 1000)
        self.long_ways: list[tuple[Any, ...]] = []
        self.builders: dict[int, BatchBuilder] = {}
        self.shortcut = self.made()

    def made(self, *, serializes_keys: bool = False, serializes_values: bool = False, knows_keys: bool = True) -> Any:
        return self.room.Shortcut(
            self,
            self.lock,
            lambda: NOW_MS,
            self.go_the_long_way,
            serializes_keys=serializes_keys,
            serializes_values=serializes_values,
            knows_keys=knows_keys,
        )

    def newer_cluster(self) -> Cluster:
        return Cluster("cluster", 1, {}, {self.topic.name: self.topic})

    def go_the_long_way(self, *given: Any) -> str:
        assert not self.lock.locked()
        self.long_ways.append(given)
        return LONG_WAY

    def open(self, partition: int, limit: int = 16_384, *, sticky: bool = True) -> Any:
        builder = self.builders[partition] = BatchBuilder(limit)
        batch = self.room.OpenBatch(f"outcome of {partition}", builder)
        with self.lock:
            self.shortcut.opened(self.cluster, self.topic, self.sticky if sticky else None, partition, batch)
        return batch

    def send(
        self,
        value: Any = b"value",
        key: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        headers: Any = (),
        topic: str = "orders",
    ) -> Any:
        return self.shortcut.send(topic, value, key, partition, timestamp_ms, headers)

    def records(self, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
        batch = self.builders[partition].seal().stamped()
        return [(record.timestamp, record.key, record.value) for record in decode_batch(batch)]


def test_a_record_goes_into_the_open_batch_and_its_delivery_knows_where_it_is(stage: Stage) -> None:
    stage.open(2)
    deliveries = [stage.send(b"first"), stage.send(b"second!")]
    assert [(each.outcome, each.index, each.timestamp_ms) for each in deliveries] == [
        ("outcome of 2", 0, NOW_MS),
        ("outcome of 2", 1, NOW_MS),
    ]
    assert [(each.key_size, each.value_size) for each in deliveries] == [(-1, 5), (-1, 7)]
    assert stage.records(2) == [(NOW_MS, None, b"first"), (NOW_MS, None, b"second!")]
    assert stage.long_ways == []


def test_keys_choose_the_same_partition_on_both_paths(stage: Stage) -> None:
    for partition in range(4):
        stage.open(partition)
    for number in range(100):
        key = b"customer %d" % number
        assert stage.send(b"value", key).outcome == f"outcome of {partition_for_key(key, 4)}"


def test_a_partition_that_is_given_is_the_one(stage: Stage) -> None:
    stage.open(1)
    assert stage.send(b"value", b"key", 1).outcome == "outcome of 1"
    assert stage.send(b"value", None, 3) == LONG_WAY


@pytest.mark.parametrize(
    "given",
    [
        {"value": "text"},
        {"value": None},
        {"value": bytearray(b"value")},
        {"key": "text"},
        {"partition": True},
        {"partition": "2"},
        {"partition": -1},
        {"partition": 4},
        {"timestamp_ms": 5},
        {"headers": [("trace", b"1")]},
        {"topic": "another"},
    ],
    ids=str,
)
def test_records_for_interceptors_take_the_general_path_unchanged(stage: Stage, given: dict[str, Any]) -> None:
    stage.open(2)
    assert stage.send(**given) == LONG_WAY
    record = {"topic": "orders", "value": b"value", "key": None, "partition": None, "timestamp_ms": None, "headers": ()}
    assert stage.long_ways == [tuple((record | given).values())]
    assert stage.builders[2].count == 0


def test_records_for_a_serializer_take_the_general_path(stage: Stage) -> None:
    stage.shortcut = stage.made(serializes_values=True)
    stage.open(2)
    assert stage.send() == LONG_WAY
    stage.shortcut = stage.made(serializes_keys=True)
    stage.open(2)
    stage.open(partition_for_key(b"key", 4))
    assert stage.send(b"value", b"key") == LONG_WAY
    assert stage.send(b"value").index == 0, "it has no key"


def test_custom_partitioners_take_the_general_path(stage: Stage) -> None:
    stage.shortcut = stage.made(knows_keys=False)
    for partition in range(4):
        stage.open(partition, sticky=False)
    assert stage.send(b"value", b"key") == LONG_WAY
    assert stage.send(b"value") == LONG_WAY


def test_records_without_a_key_stay_with_the_batch_that_was_begun_up_to_a_bound(stage: Stage) -> None:
    stage.open(2)
    stage.sticky.given_bytes = 1000 - 2 * (12 + 100)
    assert stage.send(b"v" * 100).index == 0
    assert stage.send(b"v" * 100).index == 1
    assert stage.sticky.given_bytes == 1000
    assert stage.send(b"") == LONG_WAY
    assert stage.sticky.given_bytes == 1000, "the long way counts it"


def test_a_full_batch_sends_the_record_to_the_general_path_uncounted(stage: Stage) -> None:
    stage.open(2, limit=300)
    assert stage.send(b"v" * 100).index == 0
    given_bytes = stage.sticky.given_bytes
    assert stage.send(b"v" * 200) == LONG_WAY
    assert stage.sticky.given_bytes == given_bytes


def test_a_batch_that_is_closed_takes_nothing(stage: Stage) -> None:
    batch = stage.open(2)
    assert stage.send().index == 0
    batch.close()
    assert stage.send() == LONG_WAY
    stage.open(2)
    assert stage.send().index == 0


def test_new_metadata_disables_the_fast_path_until_a_batch_is_opened_under_it(stage: Stage) -> None:
    stage.open(1)
    stage.open(2)
    stage.cluster = stage.newer_cluster()
    assert stage.send() == LONG_WAY
    stage.open(2)
    assert stage.send().index == 0
    assert stage.send(partition=1) == LONG_WAY


def test_serialized_records_are_appended_with_timestamp_and_headers_or_not_at_all(stage: Stage) -> None:
    stage.open(2)
    delivery = stage.shortcut.append("orders", None, None, None, 5, [("trace", b"1")])
    assert (delivery.timestamp_ms, delivery.value_size) == (5, -1)
    assert stage.shortcut.append("orders", None, b"value", 0, 5, ()) is None
    assert stage.long_ways == []


def test_a_record_waits_for_the_locks_holder(stage: Stage) -> None:
    batch = stage.open(2)
    sent: list[Any] = []
    with stage.lock:
        sender = threading.Thread(target=lambda: sent.append(stage.send()))
        sender.start()
        batch.close()
    sender.join(30)
    assert sent == [LONG_WAY]


def test_a_record_that_cannot_be_written_leaves_the_lock_free(stage: Stage) -> None:
    stage.open(2)
    with pytest.raises(ValueError, match="negative timestamp"):
        stage.shortcut.append("orders", None, b"value", None, -5, ())


def test_a_delivery_of_the_shortcut_is_the_clients_own() -> None:
    from cordwood import Delivery
    from cordwood.client.producer.deliveries import Outcome
    from cordwood.client.producer.shortcut import OpenBatch

    delivery = OpenBatch(Outcome(TopicPartition("orders", 0)), BatchBuilder(1000)).append(7, b"key", b"value", ())
    assert isinstance(delivery, Delivery)
    delivery.outcome.complete(40, -1)
    assert delivery.result(0) == ("orders", 0, 40, 7, 3, 5)
