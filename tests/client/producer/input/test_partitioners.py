"""Where records go: by key as Kafka's own clients, and without one in batches, to where the fewest wait."""

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cordwood.client.cluster import PartitionInfo, Topic, TopicPartition
from cordwood.client.errors import BadSetting
from cordwood.client.producer.accumulator import Accumulator
from cordwood.client.producer.input.partitioners import DefaultPartitioner, Partitioner, partitioner_for
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.primitives import ZERO_UUID

VECTORS = Path(__file__).parents[3] / "vectors" / "partitions.json.gz"


def topic(count: int, leaderless: Sequence[int] = (), name: str = "orders") -> Topic:
    partitions = tuple(
        PartitionInfo(index, -1 if index in leaderless else index + 100, 0, (), (), ()) for index in range(count)
    )
    return Topic(name, ZERO_UUID, False, partitions)


class Depths:
    """A load that is as the test says."""

    def __init__(self, **depths: int) -> None:
        self.depths = {int(name.removeprefix("p")): depth for name, depth in depths.items()}
        self.open: set[int] = set()
        self.finished: list[int] = []
        self.slow: set[int] = set()

    def depth(self, partition: TopicPartition) -> int:
        return self.depths.get(partition.partition, 0)

    def room(self, partition: TopicPartition) -> int:
        return 500 if partition.partition in self.open else 0

    def finish_batch(self, partition: TopicPartition) -> None:
        self.finished.append(partition.partition)

    def is_slow(self, leader: int, now_s: float) -> bool:
        return leader in self.slow


def by_default(load: Depths, **options: Any) -> DefaultPartitioner:
    return DefaultPartitioner(load, SeededRandom(7), stick_bytes=1000, **options)


def choices(partitioner: Partitioner, where: Topic, count: int, size: int = 1000) -> Counter[int]:
    """With values so large that each goes elsewhere than the one before it, if that is the choice."""
    return Counter(partitioner.partition(where, None, b"x" * size, index * 1.0) for index in range(count))


def test_keys_go_where_kafkas_clients_put_them() -> None:
    partitioner = by_default(Depths())
    checked = 0
    for vector in json.loads(gzip.decompress(VECTORS.read_bytes()))["murmur2"]:
        for count, expected in vector["partition"].items():
            assert partitioner.partition(topic(int(count)), bytes.fromhex(vector["key"]), b"", 0.0) == expected
            checked += 1
    assert checked > 100


def test_an_empty_key_is_a_key() -> None:
    partitioner = by_default(Depths())
    where = topic(50)
    assert {partitioner.partition(where, b"", b"x" * 1000, 0.0) for _ in range(20)} == {31}


def test_records_without_a_key_stay_together_for_a_batch() -> None:
    partitioner = by_default(Depths())
    chosen = [partitioner.partition(topic(50), None, b"x" * 88, 0.0) for _ in range(16)]
    assert len(set(chosen[:8])) == 1
    assert len(set(chosen)) > 1


def test_a_batch_that_was_begun_is_filled_before_records_go_elsewhere() -> None:
    load = Depths()
    partitioner = by_default(load)
    where = topic(50)
    current = partitioner.partition(where, None, b"x" * 988, 0.0)
    load.open = {current}
    assert partitioner.partition(where, None, b"x" * 488, 0.0) == current
    load.open = set()
    assert partitioner.partition(where, None, b"x" * 488, 0.0) != current
    assert load.finished == [current]


def test_records_do_not_stay_for_more_than_two_batches() -> None:
    load = Depths()
    load.open = set(range(50))
    partitioner = by_default(load)
    chosen = [partitioner.partition(topic(50), None, b"x" * 88, 0.0) for _ in range(21)]
    assert len(set(chosen[:20])) == 1
    assert chosen[20] != chosen[0]


def test_the_fewer_batches_wait_the_likelier_a_partition_is_chosen() -> None:
    """KIP-794's example: queues of 0, 3 and 1 batches are chosen as 4 : 1 : 3."""
    chosen = choices(by_default(Depths(p0=0, p1=3, p2=1)), topic(3), 4000)
    assert chosen[0] == pytest.approx(2000, rel=0.1)
    assert chosen[1] == pytest.approx(500, rel=0.2)
    assert chosen[2] == pytest.approx(1500, rel=0.1)


def test_without_adaptive_partitioning_all_are_chosen_alike() -> None:
    chosen = choices(by_default(Depths(p0=0, p1=3, p2=1), is_adaptive=False), topic(3), 3000)
    assert all(count == pytest.approx(1000, rel=0.15) for count in chosen.values())


def test_partitions_without_a_leader_get_no_records_without_a_key() -> None:
    assert set(choices(by_default(Depths()), topic(4, leaderless=[1, 2]), 200)) == {0, 3}


def test_without_any_leader_every_partition_is_eligible() -> None:
    assert set(choices(by_default(Depths()), topic(3, leaderless=[0, 1, 2]), 200)) == {0, 1, 2}


def test_partitions_of_a_slow_leader_are_omitted_unless_all_are_slow() -> None:
    load = Depths()
    load.slow = {100}
    partitioner = by_default(load)
    choices(partitioner, topic(3), 1)
    assert set(choices(partitioner, topic(3), 200)) == {1, 2}
    load.slow = {100, 101, 102}
    assert set(choices(by_default(load), topic(3), 200)) == {0, 1, 2}


def test_keys_may_be_ignored() -> None:
    partitioner = by_default(Depths(), ignores_keys=True)
    where = topic(10)
    assert len({partitioner.partition(where, b"key", b"x" * 1000, index * 1.0) for index in range(100)}) > 1


def test_new_partitions_are_used_and_deleted_ones_are_not() -> None:
    partitioner = by_default(Depths())
    assert set(choices(partitioner, topic(2), 50)) == {0, 1}
    assert 5 in choices(partitioner, topic(6), 200)
    assert set(choices(partitioner, topic(1), 50)) == {0}


def test_round_robin_gives_each_partition_with_a_leader_one_record_in_turn() -> None:
    partitioner = partitioner_for(ProducerSettings(partitioner="round_robin"), Depths(), SeededRandom(1))
    where, other = topic(4, leaderless=[2]), topic(2, name="others")
    chosen = [partitioner.partition(where, b"same key", None, 0.0) for _ in range(6)]
    assert chosen == [0, 1, 3, 0, 1, 3]
    assert [partitioner.partition(other, None, None, 0.0) for _ in range(2)] == [0, 1]


def test_a_callable_sees_the_key_all_partitions_and_those_with_a_leader() -> None:
    seen: list[Any] = []

    def last(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        seen.append((key, list(partitions), list(available)))
        return available[-1]

    partitioner = partitioner_for(ProducerSettings(partitioner=last), Depths(), SeededRandom(1))
    assert partitioner.partition(topic(4, leaderless=[3]), b"key", None, 0.0) == 2
    assert seen == [(b"key", [0, 1, 2, 3], [0, 1, 2])]


def test_a_partitioner_that_chooses_a_missing_partition_raises() -> None:
    settings = ProducerSettings(partitioner=lambda key, partitions, available: 4)
    partitioner = partitioner_for(settings, Depths(), SeededRandom(1))
    with pytest.raises(BadSetting, match="chose 4 for topic orders, which has the partitions 0 to 3"):
        partitioner.partition(topic(4), None, None, 0.0)


def test_an_unknown_partitioner_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(BadSetting, match="'round_robin'"):
        partitioner_for(ProducerSettings(partitioner="murmur3"), Depths(), SeededRandom(1))


def test_with_an_accumulator_every_batch_is_filled_before_the_next_partition_is_chosen() -> None:
    settings = ProducerSettings(batch_size=16_384, buffer_memory=1 << 26)
    gathering = Accumulator(settings)
    partitioner = partitioner_for(settings, gathering, SeededRandom(3))
    where = topic(1000)
    for index in range(20_000):
        partition = TopicPartition("orders", partitioner.partition(where, None, b"v" * (50 + index % 100), 0.0))
        assert gathering.append(partition, 1, None, b"v" * (50 + index % 100), (), 0.0) is not None
    drained = []
    while batches := gathering.drain(1, lambda _: 1, lambda _: True, 1 << 30, 0.0):
        drained += batches
    short = [batch for batch in drained if batch.size_bytes < 16_384 - 300]
    assert len(drained) > 100
    assert len(short) <= 1


def test_a_batch_that_is_left_because_it_is_full_does_not_linger() -> None:
    settings = ProducerSettings(batch_size=1000, linger_ms=60_000)
    gathering = Accumulator(settings)
    partitioner = partitioner_for(settings, gathering, SeededRandom(3))
    where = topic(1000)
    chosen: set[TopicPartition] = set()
    while len(chosen) < 2:
        partition = TopicPartition("orders", partitioner.partition(where, None, b"v" * 100, 0.0))
        chosen.add(partition)
        gathering.append(partition, 1, None, b"v" * 100, (), 0.0)
    led_by = {partition: 1 if gathering.room(partition) == 0 else 2 for partition in chosen}
    assert sorted(led_by.values()) == [1, 2]
    assert gathering.ready(led_by.get, 0.0).leaders == {1}
