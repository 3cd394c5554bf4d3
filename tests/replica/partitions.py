"""Partitions on a simulated disk, whose flushes the test does itself, or has done by a flusher."""

from __future__ import annotations

import random
from collections.abc import Callable

from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.config.topic import topic_config
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.replica.partition import Partition, Replication
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

NOW = 1_700_000_000_000
REPLICATION = Replication(lag_time_max_ms=30_000, backoff_ms=1_000, propose_isr=lambda _partition, _proposal: None)
BROKER = 1
OTHER = 2
BROKER_CONFIG = BrokerConfig.from_layers(
    Layer(
        "test",
        {
            "node.id": str(BROKER),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
        },
    )
)


class StoppedClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


def state(*, leader: int = BROKER, epoch: int = 0, replicas: tuple[int, ...] = (BROKER,)) -> PartitionState:
    return PartitionState(replicas=replicas, isr=replicas, leader=leader, leader_epoch=epoch, partition_epoch=0)


def disk(seed: int = 1) -> SimDisk:
    return SimDisk(random.Random(seed), root="/data", now_ms=lambda: NOW)


def partition_on(
    where: SimDisk,
    request_flush: Callable[[Partition], None],
    index: int = 0,
    **settings: str,
) -> Partition:
    """Settings of its topic by their names, with underscores for dots."""
    config = topic_config(BROKER_CONFIG, {name.replace("_", "."): value for name, value in settings.items()})
    where.make_directory(f"t-{index}")
    log = open_log(where, f"t-{index}", config.log, SeededRandom(1), now_ms=NOW, options=OpenOptions())
    return Partition("t", index, bytes(16), BROKER, state(), log, config, StoppedClock(), REPLICATION, request_flush)


def log_of(partition: Partition) -> Log:
    assert partition.log is not None
    return partition.log


def flush(partition: Partition) -> None:
    """As a flusher does it, all at once."""
    log_of(partition).flush(NOW)
    partition.flushed()


def batch(*values: str, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> bytearray:
    records = [Record(index, NOW, None, value.encode(), ()) for index, value in enumerate(values)]
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
