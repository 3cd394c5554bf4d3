"""A group whose members are processes, and the topic that they work on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.foreign_clients.child_process import ChildProcess
from tests.foreign_clients.group_history import GroupHistory
from tests.foreign_clients.group_member import GO_ON, LEAVE, STALL, run
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, eventually
from tests.foreign_clients.librdkafka_client import connection_settings
from tests.foreign_clients.member_journal import Event, Place, Position, read_journal
from tests.foreign_clients.member_spec import MemberSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """A member's library and settings."""

    library: str
    protocol: str
    assignor: str


EAGER = Kind("librdkafka", "classic", "range")
COOPERATIVE = Kind("librdkafka", "classic", "cooperative-sticky")
CONSUMER = Kind("librdkafka", "consumer", "uniform")
KAFKA_PYTHON = Kind("kafka-python", "classic", "range")
KAFKA_PYTHON_COOPERATIVE = Kind("kafka-python", "classic", "cooperative-sticky")
AIOKAFKA = Kind("aiokafka", "classic", "range")
CORDWOOD = Kind("cordwood", "classic", "range")
CORDWOOD_COOPERATIVE = Kind("cordwood", "classic", "cooperative-sticky")
CORDWOOD_CONSUMER = Kind("cordwood", "consumer", "uniform")

KINDS = {
    "librdkafka-eager": EAGER,
    "librdkafka-cooperative": COOPERATIVE,
    "librdkafka-consumer": CONSUMER,
    "kafka-python": KAFKA_PYTHON,
    "kafka-python-cooperative": KAFKA_PYTHON_COOPERATIVE,
    "aiokafka": AIOKAFKA,
    "cordwood-eager": CORDWOOD,
    "cordwood-cooperative": CORDWOOD_COOPERATIVE,
    "cordwood-consumer": CORDWOOD_CONSUMER,
}


class Member:
    """One member, from outside."""

    def __init__(self, spec: MemberSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.process = ChildProcess(run, spec)

    def events(self) -> list[Event]:
        return read_journal(self.spec.journal, self.name)

    def leave(self) -> None:
        self.process.tell(LEAVE)
        status = self.process.await_end()
        assert status == 0, f"{self.name} ended with {status}; last {self.events()[-3:]}\n{self._said()}"

    def stall(self) -> None:
        """It polls no more, from when this returns until `go_on`."""
        before = self._count("stalled")
        self.process.tell(STALL)
        eventually(lambda: self._count("stalled") > before)

    def go_on(self) -> None:
        self.process.tell(GO_ON)

    def kill(self) -> None:
        self.process.kill()

    def check(self) -> None:
        """An error that it did not expect has ended it."""
        for event in self.events():
            assert event.kind != "failed", f"{self.name}: {event.text}\n{self._said()}"

    def _count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events())

    def _said(self) -> str:
        log = self.spec.journal.with_suffix(".log")
        return log.read_text() if log.exists() else ""


class Group:
    def __init__(self, address: Address, name: str, topic: str, folder: Path) -> None:
        self.address = address
        self.name = name
        self.topic = topic
        self.members: list[Member] = []
        self._folder = folder

    def start(self, kind: Kind, **settings: Any) -> Member:
        name = f"member-{len(self.members)}"
        spec = MemberSpec(
            name=name,
            library=kind.library,
            protocol=kind.protocol,
            assignor=kind.assignor,
            bootstrap=self.address.bootstrap,
            group=self.name,
            topics=settings.pop("topics", (self.topic,)),
            journal=self._folder / f"{name}.jsonl",
            **settings,
        )
        member = Member(spec)
        self.members.append(member)
        return member

    def history(self) -> GroupHistory:
        for member in self.members:
            member.check()
        return GroupHistory(event for member in self.members for event in member.events())

    def await_owners(self, members: Sequence[Member], partitions: int) -> dict[str, set[Place]]:
        """Until these members share the partitions of the topic among them; the owners."""
        return self.await_shared(members, {Place(self.topic, partition) for partition in range(partitions)})

    def await_shared(self, members: Sequence[Member], places: set[Place]) -> dict[str, set[Place]]:
        def shares() -> dict[str, set[Place]]:
            owned = self.history().owned()
            return {member.name: owned[member.name] for member in members}

        def is_shared(shares: dict[str, set[Place]]) -> bool:
            given = [place for share in shares.values() for place in share]
            return len(given) == len(places) and set(given) == places and _is_even(shares)

        return eventually(shares, is_shared)

    def await_processed(self, records: Iterable[Position]) -> None:
        wanted = set(records)
        eventually(lambda: wanted - set(self.history().processed()), lambda missing: not missing)

    def await_event(self, member: Member, kind: str, after: int = 0) -> Event:
        """The first of this kind beyond the first `after` events of the member."""

        def found() -> list[Event]:
            member.check()
            return [event for event in member.events()[after:] if event.kind == kind]

        return eventually(found)[0]

    def close(self) -> None:
        for member in self.members:
            member.kill()


def _is_even(shares: dict[str, set[Place]]) -> bool:
    sizes = [len(share) for share in shares.values()]
    return max(sizes) - min(sizes) <= 1


class Feed:
    """Writes a given number of records to all partitions of a topic."""

    def __init__(self, address: Address, topic: str, partitions: int) -> None:
        # Per partition.
        self.ends = {Place(topic, partition): 0 for partition in range(partitions)}
        self._producer = Producer(connection_settings(address) | {"linger.ms": 0, "enable.idempotence": True})

    def add(self, count: int, places: Iterable[Place] | None = None) -> list[Position]:
        """So many records to each of these partitions, acknowledged."""
        added: list[Position] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                errors.append(error)

        for place in list(self.ends if places is None else places):
            for _ in range(count):
                offset = self.ends[place]
                self._producer.produce(place.topic, b"%d" % offset, partition=place.partition, on_delivery=delivered)
                added.append(Position(*place, offset))
                self.ends[place] += 1
        assert self._producer.flush(PATIENCE_S) == 0
        assert errors == []
        return added
