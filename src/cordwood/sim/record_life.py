"""The life of the record that a violation names: its sends and their answers, the leaders of its partition, and its
reads.

print(life(history, violation.what))
"""

import re
from collections.abc import Callable, Iterator

from cordwood.sim.histories.history import History, Partition, Send

from .partition import partition_name

_SEND = re.compile(r"send (\d+) of ")
_PLACE = re.compile(r"([\w.+-]+)-(\d+)@(\d+)")
_MAX_READS = 5

# (time, event)
_Event = tuple[float, str]
# Whether the record at an offset, with a value, is the one.
_Meant = Callable[[int, bytes], bool]


def life(history: History, what: str) -> str:
    """Empty if the violation names no record."""
    numbers = {int(number) for number in _SEND.findall(what)}
    sends = [send for send in history.sends if send.number in numbers]
    stories = [_story(history, send) for send in sends[:2]]
    if not stories:
        places = {((topic, int(index)), int(offset)) for topic, index, offset in _PLACE.findall(what)}
        stories = [_story_of_a_place(history, *place) for place in sorted(places)[:2]]
    return "\n\n".join(stories)


def _story(history: History, send: Send) -> str:
    values = set(send.values)
    events: list[_Event] = [(send.begun_s, f"{send.client} sends it with acks={send.acks}: {len(values)} records")]
    if send.ended_s < float("inf"):
        at = f" at {send.base_offset}" if send.base_offset >= 0 else ""
        error = f", error {send.error}" if send.error else ""
        events.append((send.ended_s, f"{send.client} gets {send.outcome.value}{at}{error}"))
    events += _reads(history, send.partition, lambda _offset, value: value in values)
    events += _leaders(history, send.partition)
    events += _end(history, send.partition, lambda _offset, value: value in values)
    return _told(f"send {send.number} to {partition_name(send.partition)}:", events)


def _story_of_a_place(history: History, partition: Partition, offset: int) -> str:
    events: list[_Event] = [
        (send.ended_s, f"{send.client} gets send {send.number} reported as a duplicate")
        for send in history.sends
        if send.partition == partition and 0 <= send.base_offset <= offset <= send.last_offset
    ]
    events += _reads(history, partition, lambda at, _value: at == offset)
    events += _leaders(history, partition)
    events += _end(history, partition, lambda at, _value: at == offset)
    return _told(f"{partition_name(partition)}@{offset}:", events)


def _reads(history: History, partition: Partition, is_meant: _Meant) -> Iterator[_Event]:
    count = 0
    for read in history.reads:
        found = [seen.offset for seen in read.records if is_meant(seen.offset, seen.value)]
        if read.partition == partition and found and count < _MAX_READS:
            count += 1
            value = next(seen.value for seen in read.records if seen.offset == found[0])
            yield read.ended_s, f"{read.client} has read {value[:40]!r} at {found[0]}"


def _leaders(history: History, partition: Partition) -> Iterator[_Event]:
    for change in history.replicas.states:
        if change.partition == partition:
            state = change.state
            leader = f"node {state.leader} leads" if state.leader >= 0 else "nobody leads"
            yield change.at_s, f"{leader} epoch {state.leader_epoch}; in sync {state.isr}, eligible {state.elr}"


def _end(history: History, partition: Partition, is_meant: _Meant) -> Iterator[_Event]:
    log = history.final.get(partition)
    if log is not None:
        found = [(seen.offset, seen.value[:40]) for seen in log.records if is_meant(seen.offset, seen.value)]
        where = f"in the log are {found}" if found else "it is not in the log"
        yield log.read_s, f"{where}, which ends at {log.high_watermark}"


def _told(title: str, events: list[_Event]) -> str:
    return "\n".join([title, *(f"{at_s:12.6f}  {what}" for at_s, what in sorted(events))])
