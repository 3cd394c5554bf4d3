"""The committed records of a log according to its markers: the reference for all other checks."""

from dataclasses import dataclass, field

from cordwood.sim.histories.history import FinalLog, Marker


@dataclass(slots=True)
class Decided:
    """Offsets of records."""

    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    # States of transactions that have not ended.
    open: set[int] = field(default_factory=set)

    def of(self, offset: int) -> str:
        for name, offsets in (("committed", self.committed), ("aborted", self.aborted), ("open", self.open)):
            if offset in offsets:
                return name
        return "not there"


def decided(log: FinalLog) -> Decided:
    result = Decided()
    open_by_producer: dict[int, set[int]] = {}
    for seen in log.records:
        if seen.marker is not None:
            ended = open_by_producer.pop(seen.producer_id, set())
            (result.committed if seen.marker is Marker.COMMIT else result.aborted).update(ended)
        elif seen.is_transactional:
            open_by_producer.setdefault(seen.producer_id, set()).add(seen.offset)
        else:
            result.committed.add(seen.offset)
    result.open.update(*open_by_producer.values())
    return result
