"""Numbers are read, transformed and written in transactions by processes that are killed at random points.

In the end a read_committed consumer finds each number's transform, once.
"""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from tests.foreign_clients.child_process import ChildProcess
from tests.foreign_clients.clients_fixtures import KAFKA
from tests.foreign_clients.group_fixtures import SETTINGS
from tests.foreign_clients.kafka_client import (
    PATIENCE_S,
    Address,
    Client,
    ConfigChange,
    Reading,
    Record,
    Resource,
    eventually,
)
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient, connection_settings
from tests.foreign_clients.member_journal import read_journal
from tests.foreign_clients.node_process import Nodes
from tests.foreign_clients.transformer import run
from tests.foreign_clients.transforming import STALLED, Death, TransformerSpec, transformed

# Every so many rounds the node is killed as well.
NODE_DIES_EVERY = 6
NUMBERS_PER_ROUND = 40
SOURCE_PARTITIONS = 4
SINK_PARTITIONS = 3
# A death comes within the first few transactions, of four steps each.
LAST_STEP = 16
READERS = ("librdkafka", "kafka-python", "aiokafka", "cordwood")
SENTINEL = b"the end"

Connect = Callable[[str, Address], Client]


@dataclass(frozen=True, slots=True)
class Worker:
    """The parameters of the work: library, and assignment of partitions."""

    library: str
    protocol: str = "classic"
    is_assigned: bool = False
    # How many of its processes are killed.
    deaths: int = 30


WORKERS = {
    "librdkafka": Worker("librdkafka"),
    "librdkafka-consumer": Worker("librdkafka", "consumer", deaths=15),
    "kafka-python": Worker("kafka-python", deaths=15),
    "aiokafka": Worker("aiokafka", is_assigned=True),
    "cordwood": Worker("cordwood"),
    "cordwood-consumer": Worker("cordwood", "consumer", deaths=15),
}


class Slot:
    """A place for a process: one follows the other, under the same transactional id."""

    def __init__(self, number: int, worker: Worker, address: Address, topic: str, folder: Path) -> None:
        self.worker = worker
        self._number = number
        self._address = address
        self._topic = topic
        self._folder = folder
        self._process: ChildProcess | None = None
        self._started = 0

    def start(self, seed: int, death: Death | None) -> None:
        name = f"slot-{self._number}-{self._started}"
        self._started += 1
        spec = TransformerSpec(
            name=name,
            library=self.worker.library,
            bootstrap=self._address.bootstrap,
            group=f"g-{self._topic}",
            transactional_id=f"{self._topic}-{self._number}",
            source=self._topic,
            sink=f"{self._topic}-sink",
            sink_partitions=SINK_PARTITIONS,
            journal=self._folder / f"{name}.jsonl",
            seed=seed,
            partitions=(self._number, self._number + 2) if self.worker.is_assigned else None,
            protocol=self.worker.protocol,
            death=death,
        )
        self._process = ChildProcess(run, spec)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def was_killed(self) -> bool:
        return self._process is not None and not self.is_running and self._process.await_end() == -signal.SIGKILL

    @property
    def is_stalled(self) -> bool:
        return self._process is not None and not self.is_running and self._process.await_end() == STALLED

    def end(self, *, may_stall: bool = False) -> None:
        """`may_stall`: its library may have stalled since, whereupon the process ends automatically."""
        assert self._process is not None
        try:
            self._process.tell("end")
        except BrokenPipeError:
            assert may_stall, self.failures()
        assert self._process.await_end() in ({0, STALLED} if may_stall else {0}), self.failures()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def failures(self) -> list[str]:
        """Reasons why its processes ended, other than being killed."""
        journals = sorted(self._folder.glob(f"slot-{self._number}-*.jsonl"))
        return [event.text for path in journals for event in read_journal(path, path.stem) if event.kind == "failed"]


class Numbers:
    """The source: 0, 1, 2, …"""

    def __init__(self, address: Address, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._producer = Producer(connection_settings(address) | {"enable.idempotence": True, "linger.ms": 2})

    def add(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(self._topic, b"%d" % self.count, partition=self.count % SOURCE_PARTITIONS)
            self.count += 1
        assert self._producer.flush(PATIENCE_S) == 0

    def expected(self, sink_partition: int) -> list[bytes]:
        return [transformed(b"%d" % number) for number in range(sink_partition, self.count, SINK_PARTITIONS)]


@pytest.fixture
def mortal_node(request: pytest.FixtureRequest) -> Nodes | None:
    """A node that the test may kill; None where Kafka stands in, which is left alone."""
    if KAFKA is not None:
        return None
    node: Nodes = request.getfixturevalue("own_node")(SETTINGS)
    return node


@pytest.fixture
def slots(
    request: pytest.FixtureRequest, mortal_node: Nodes | None, topic: str, tmp_path: Path
) -> Iterator[list[Slot]]:
    worker = WORKERS[request.param]
    address = Address(mortal_node.bootstrap if mortal_node is not None else str(KAFKA))
    admin = LibrdkafkaClient(address)
    admin.create_topic(topic, SOURCE_PARTITIONS)
    admin.create_topic(f"{topic}-sink", SINK_PARTITIONS)
    if worker.protocol == "consumer":
        # Its members are dynamic: a dead one expires, and others take over.
        short = ConfigChange("set", "consumer.session.timeout.ms", "1000")
        admin.change_configs(Resource("group", f"g-{topic}"), [short])
    slots = [Slot(number, worker, address, topic, tmp_path) for number in range(2)]
    yield slots
    for slot in slots:
        slot.kill()


@pytest.mark.parametrize("slots", WORKERS, indirect=True)
def test_each_number_is_transformed_once_despite_kills(
    slots: list[Slot], mortal_node: Nodes | None, topic: str, connect: Connect
) -> None:
    random = Random(topic if KAFKA else 1)
    address = Address(mortal_node.bootstrap if mortal_node is not None else str(KAFKA))
    numbers = Numbers(address, topic)
    deaths = 0
    for number in count(1):
        numbers.add(NUMBERS_PER_ROUND)
        for slot in slots:
            if not slot.is_running:
                slot.start(random.randrange(1000), Death(random.randint(1, LAST_STEP), random.uniform(0, 0.02)))
        if mortal_node is not None and number % NODE_DIES_EVERY == 0:
            mortal_node.kill()
            mortal_node.start()
        ended = eventually(lambda: [slot for slot in slots if not slot.is_running])
        deaths += sum(slot.was_killed for slot in ended)
        if deaths >= slots[0].worker.deaths:
            break
    for slot in slots:
        slot.kill()
        slot.start(random.randrange(1000), None)

    sink = f"{topic}-sink"
    reader = connect("librdkafka", address)
    for partition in range(SINK_PARTITIONS):
        with Reading(reader.reader(sink, partition=partition, start=0, isolation="read_committed")) as reading:
            reading.take(len(numbers.expected(partition)))
    for slot in slots:
        slot.end()
    for partition in range(SINK_PARTITIONS):
        reader.produce(sink, [Record(SENTINEL)], partition=partition)
        for name in READERS:
            found = read_to_sentinel(connect(name, address), sink, partition)
            assert sorted(found, key=lambda value: int(value or b"-1")) == numbers.expected(partition), name
    # Not all of them get over a node that is away.
    away = ("ConnectionError", "CannotReachCluster")
    failures = [text for slot in slots for text in slot.failures()]
    assert [text for text in failures if not any(name in text for name in away)] == []


def read_to_sentinel(client: Client, topic: str, partition: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Reading(client.reader(topic, partition=partition, start=0, isolation="read_committed")) as reading:
        while (value := reading.take(1)[0].value) != SENTINEL:
            found.append(value)
    return found
