"""A record sent after another's acknowledgement has a higher offset."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History, Partition, Send

from .violation import Violation


def sends_keep_the_order_of_time(history: History) -> Iterator[Violation]:
    groups: dict[tuple[Partition, int], list[Send]] = {}
    for send in history.acknowledged():
        groups.setdefault((send.partition, history.era(send.incarnation)), []).append(send)
    for sends in groups.values():
        by_end = sorted(sends, key=lambda send: send.ended_s)
        at = 0
        furthest: Send | None = None
        for send in sorted(sends, key=lambda send: send.begun_s):
            while at < len(by_end) and by_end[at].ended_s < send.begun_s:
                if furthest is None or by_end[at].last_offset > furthest.last_offset:
                    furthest = by_end[at]
                at += 1
            if furthest is not None and send.base_offset <= furthest.last_offset:
                yield Violation("later sends have higher offsets", f"{furthest}, and then {send}")
