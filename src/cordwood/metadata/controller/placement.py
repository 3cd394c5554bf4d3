"""Places the replicas of new partitions: round robin over racks, and over the brokers of each rack.

The start is random and moves on by one with each partition, so that leaders and followers are spread. Fenced brokers
come after all others of their rack, and never first: the first replica leads.
"""

from cordwood.metadata.image import Broker, MetadataImage
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode


def place_replicas(
    image: MetadataImage, random: Random, partitions: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition, the leader first."""
    brokers = [broker for broker in image.brokers.values() if not _is_cordoned(broker)]
    if all(broker.fenced for broker in brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    racks: dict[str, _Rack] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.id)):
        rack = racks.setdefault(broker.rack or "", _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).append(broker.id)
    stripes = list(racks.values())
    for rack in stripes:
        rack.start = random.below(len(rack.unfenced) + len(rack.fenced))
    first_rack = random.below(len(stripes))
    return [_place(stripes, first_rack + number, number, replication_factor) for number in range(partitions)]


def _is_cordoned(broker: Broker) -> bool:
    """True if none of its directories accepts new replicas (KIP-1066)."""
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ())


class _Rack:
    __slots__ = ("fenced", "start", "unfenced")

    def __init__(self) -> None:
        self.unfenced: list[int] = []
        self.fenced: list[int] = []
        self.start = 0

    def rotated(self, round_number: int) -> list[int]:
        """Every broker of the rack once, the unfenced ones first."""
        at = self.start + round_number
        return [*_rotate(self.unfenced, at), *_rotate(self.fenced, at)]


def _rotate(brokers: list[int], by: int) -> list[int]:
    by = by % len(brokers) if brokers else 0
    return brokers[by:] + brokers[:by]


def _place(racks: list[_Rack], first_rack: int, number: int, replication_factor: int) -> tuple[int, ...]:
    # Each rack is first once per round of racks, and each time starts one broker further.
    queues = [rack.rotated(number // len(racks)) for rack in racks]
    order = [(first_rack + step) % len(racks) for step in range(len(racks))]
    # Only a rack with an unfenced broker can have the leader; the others keep their order behind it.
    leading = next(index for index in order if racks[index].unfenced)
    order.remove(leading)
    order.insert(0, leading)
    replicas: list[int] = []
    while len(replicas) < replication_factor:
        for index in order:
            if queues[index] and len(replicas) < replication_factor:
                replicas.append(queues[index].pop(0))
    return tuple(replicas)
