"""The history of a group, joined from its members' journals, and its invariants."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from tests.foreign_clients.member_journal import Event, Place, Position

Undone = dict[tuple[str, Place], list[Position]]
"""Records that a member has processed in a partition, and not committed."""


class GroupHistory:
    """Events of all members, in the order in which they happened."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: event.at_ns)

    def owned(self) -> dict[str, set[Place]]:
        """Member → what it has now."""
        owned: dict[str, set[Place]] = defaultdict(set)
        for event in self.events:
            if event.kind == "assigned":
                owned[event.member].update(event.places)
            elif event.kind in ("revoked", "lost"):
                owned[event.member].difference_update(event.places)
            elif event.kind == "left":
                owned[event.member].clear()
        return owned

    def processed(self) -> list[Position]:
        return [record for event in self.events if event.kind == "processed" for record in event.records]

    def counted(self) -> Counter[Position]:
        """The number of times each record was processed."""
        return Counter(self.processed())

    def of(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def story(self, places: Collection[Place]) -> str:
        """All that happened to these partitions, and which commits were refused: to explain a failed check."""
        lines = []
        for event in self.events:
            about = [str(place) for place in event.places if place in places]
            about += [str(record) for record in event.records if record.place in places]
            if about or event.text:
                what = ", ".join([*about, event.text]).strip(", ")
                when = f"{event.at_ns / 1e9:.3f}"
                lines.append(f"{when} {event.member} generation {event.generation} {event.kind}: {what}")
        return "\n".join(lines)

    # ---- what must hold

    def check_one_owner_per_generation(self) -> None:
        """Within a generation each partition has one worker, and each record is worked on once."""
        workers: dict[tuple[int, Place], set[str]] = defaultdict(set)
        times: Counter[tuple[int, Position]] = Counter()
        for event in self.of("processed"):
            for record in event.records:
                workers[event.generation, record.place].add(event.member)
                times[event.generation, record] += 1
        shared = {key: members for key, members in workers.items() if len(members) > 1}
        assert shared == {}, self.story({place for _, place in shared})
        repeated = {key: count for key, count in times.items() if count > 1}
        assert repeated == {}, self.story({record.place for _, record in repeated})

    def check_owned_by_one_at_a_time(self) -> None:
        """No member is assigned a partition before its owner has released it. Holds without crashes or stalls."""
        owner: dict[Place, str] = {}
        for event in self.events:
            for place in event.places:
                if event.kind == "assigned":
                    assert owner.get(place) is None, f"{place} is given to {event.member}, {owner[place]} has it"
                    owner[place] = event.member
                elif owner.get(place) == event.member:
                    del owner[place]

    def check_in_order(self) -> None:
        """A member's work after an assignment has no gaps."""
        last: dict[tuple[str, Place], int] = {}
        for event in self.events:
            if event.kind in ("assigned", "revoked", "lost"):
                for place in event.places:
                    last.pop((event.member, place), None)
            for record in event.records if event.kind == "processed" else ():
                key = (event.member, record.place)
                assert last.get(key, record.offset - 1) == record.offset - 1, f"{key}: {last[key]}, {record.offset}"
                last[key] = record.offset

    def check_each_processed(self, ends: Mapping[Place, int], *, once: bool = True) -> None:
        """All records before these ends; with `once` none of them again, except uncommitted ones."""
        expected = {Position(*place, offset): 1 for place, end in ends.items() for offset in range(end)}
        found = self.counted()
        assert sorted(expected.keys() - found.keys()) == []
        assert sorted(found.keys() - expected.keys()) == []
        if once:
            found.subtract(self._given_up())
            repeated = {record: count for record, count in found.items() if count > 1}
            assert repeated == {}, self.story({record.place for record in repeated})

    def _given_up(self) -> list[Position]:
        """Records processed by a member whose commit was rejected and that then lost the partition. librdkafka joins a
        cooperative rebalance while the application works: if the others are quick, commits of the previous generation
        come too late, with Kafka as with Cordwood."""
        given_up: list[Position] = []
        undone: Undone = defaultdict(list)
        refused: set[tuple[str, Place]] = set()
        for event in self.events:
            refused.difference_update((event.member, done.place) for done in _commit(undone, event))
            if event.kind == "refused":
                refused.update(key for key, records in undone.items() if key[0] == event.member and records)
            for place in event.places:
                records = undone.pop((event.member, place), [])
                if (event.member, place) in refused:
                    refused.discard((event.member, place))
                    given_up += records
        return given_up

    def check_committed_once(self) -> None:
        """No committed work is committed again. A member that was given up may do it without a commit."""
        undone: Undone = defaultdict(list)
        times: Counter[Position] = Counter()
        for event in self.events:
            times.update(_commit(undone, event))
            for place in event.places:
                undone.pop((event.member, place), None)
        assert {record: count for record, count in times.items() if count > 1} == {}


def _commit(undone: Undone, event: Event) -> list[Position]:
    """Records that the event commits. Adds work to it."""
    committed: list[Position] = []
    for record in event.records:
        key = (event.member, record.place)
        if event.kind == "processed":
            undone[key].append(record)
        elif event.kind == "committed":
            # The committed offset is that of the next record.
            committed += [done for done in undone[key] if done.offset < record.offset]
            undone[key] = [done for done in undone[key] if done.offset >= record.offset]
    return committed
