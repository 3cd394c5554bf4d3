"""A group member's journal: one line per event, in a file that outlives it.

The member may be killed between any two lines. `Journal` writes, `read_journal` reads, also while the member lives.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Position(NamedTuple):
    """Of a record."""

    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    member: str
    # By the clock that all processes of a machine share: events of several journals have an order.
    at_ns: int
    # As of the last assignment; the member epoch with KIP-848.
    generation: int
    # Which the event is about: given, taken away.
    places: tuple[Place, ...] = ()
    records: tuple[Position, ...] = ()
    text: str = ""


class Journal:
    """The member's side. Its assignment, its processed records, and those not committed yet."""

    def __init__(self, path: Path, member: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._member = member
        self._generation = -1
        self.owned: set[Place] = set()
        # The next offset of each partition that has been worked on.
        self.uncommitted: dict[Place, int] = {}

    def assigned(self, places: Iterable[Place], generation: int) -> None:
        self._generation = generation
        places = list(places)
        self.owned.update(places)
        self._note("assigned", places=places)

    def revoked(self, places: Iterable[Place]) -> None:
        self._given_up("revoked", places)

    def lost(self, places: Iterable[Place]) -> None:
        self._given_up("lost", places)

    def processed(self, records: list[Position]) -> None:
        self._note("processed", records=records)
        for record in records:
            self.uncommitted[record.place] = record.offset + 1

    def committed(self, offsets: dict[Place, int]) -> None:
        self._note("committed", records=[Position(*place, offset) for place, offset in offsets.items()])
        for place, offset in offsets.items():
            if self.uncommitted.get(place) == offset:
                del self.uncommitted[place]

    def tell(self, kind: str, text: str = "") -> None:
        self._note(kind, text=text)

    def _given_up(self, kind: str, places: Iterable[Place]) -> None:
        places = list(places)
        self.owned.difference_update(places)
        for place in places:
            self.uncommitted.pop(place, None)
        self._note(kind, places=places)

    def _note(
        self, kind: str, *, places: list[Place] | None = None, records: list[Position] | None = None, text: str = ""
    ) -> None:
        line = json.dumps([kind, monotonic_ns(), self._generation, places or [], records or [], text])
        os.write(self._descriptor, line.encode() + b"\n")


def read_journal(path: Path, member: str) -> list[Event]:
    if not path.exists():
        return []
    # A line without an end is being written, or its writer was killed.
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_event(line, member) for line in lines]


def _event(line: bytes, member: str) -> Event:
    kind, at_ns, generation, places, records, text = json.loads(line)
    return Event(
        kind,
        member,
        at_ns,
        generation,
        tuple(Place(*place) for place in places),
        tuple(Position(*record) for record in records),
        text,
    )
