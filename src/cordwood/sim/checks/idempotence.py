"""Each batch is in the log at most once, complete; those of an idempotent producer in sequence order.

Where nothing may be lost, a broker must not say of a batch that it does not follow, if all before it is acknowledged.
There are three excuses. It was appended, and the broker was started again since: a start knows a producer's last batch
before the last snapshot, as in Kafka's files, and those after it; an earlier one sent again is refused. Or it is the
producer's first, was refused while too few replicas were in sync, and those sent behind it were not: the first batch of
a producer that a broker knows nothing of may have any sequence, as in Kafka. Or the broker no longer leads and does not
know that yet, and the earlier batches are with its successor: as in Kafka, it compares sequences before it finds out
that it has no followers.
"""

from collections.abc import Iterator

from cordwood.sim.histories.history import FinalLog, History, Outcome, Partition, Promise, Read, Send, SequenceGap

from .violation import Violation


def idempotent_sends_are_appended_once_and_in_order(history: History) -> Iterator[Violation]:
    for partition, log in history.final.items():
        yield from _once_whole_and_in_order(history, partition, log)
        yield from _streams_in_order(history, partition, log)
    yield from _read_once(history)
    if history.promise is not Promise.PREFIX:
        for gap in history.sequence_gaps:
            send = gap.send
            if history.is_loose(send.partition) or _was_overtaken(history, send) or _was_deposed(history, gap):
                continue
            if gap.incarnation == send.first_incarnation or not _may_be_appended(history, send):
                yield Violation("producer state has all acknowledged batches", f"error {gap.error}: {send}")


def _may_be_appended(history: History, send: Send) -> bool:
    log = history.final.get(send.partition)
    if log is None or log.start_offset > 0 or send.partition[0] in history.compacted:
        return True
    return any(seen.value == send.values[0] for seen in log.records)


def _was_overtaken(history: History, send: Send) -> bool:
    """Returns whether it is the first of its producer, and only later ones are in the log."""
    log = history.final.get(send.partition)
    if log is None or send.sequence != 0:
        return False
    there = {seen.value for seen in log.records}
    producer = (send.partition, send.producer_id, send.producer_epoch)
    return send.values[0] not in there and any(
        other.values[0] in there
        for other in history.sends
        if (other.partition, other.producer_id, other.producer_epoch) == producer
    )


def _was_deposed(history: History, gap: SequenceGap) -> bool:
    """Returns whether the broker had a successor by then, and the producer an acknowledgement since."""
    deposed_s = float("inf")
    for change in history.replicas.states:
        if change.partition != gap.send.partition or change.at_s > gap.ended_s:
            continue
        if change.state.leader != gap.node_id:
            deposed_s = min(deposed_s, change.at_s)
        elif change.at_s <= gap.begun_s:
            deposed_s = float("inf")
    producer = (gap.send.partition, gap.send.producer_id, gap.send.producer_epoch)
    return any(
        deposed_s < send.ended_s <= gap.begun_s
        for send in history.sends
        if send.outcome is Outcome.ACKNOWLEDGED and (send.partition, send.producer_id, send.producer_epoch) == producer
    )


def _once_whole_and_in_order(history: History, partition: Partition, log: FinalLog) -> Iterator[Violation]:
    name = f"{partition[0]}-{partition[1]}"
    places: dict[bytes, list[int]] = {}
    for seen in log.records:
        places.setdefault(seen.value, []).append(seen.offset)
    # By producer: the sequence and the last offset of the batch before.
    before: dict[int, tuple[int, int]] = {}
    sends = [send for send in history.sends if send.partition == partition]
    for send in sorted(sends, key=lambda send: (send.producer_id, send.producer_epoch, send.sequence)):
        found = [places.get(value, []) for value in send.values]
        if any(len(offsets) > 1 for offsets in found):
            yield Violation("a batch is appended once", f"{name} has it at {found}: {send}")
            continue
        offsets = [one[0] for one in found if one]
        if not offsets:
            continue
        if partition[0] not in history.compacted and not _is_whole(found, offsets, log.start_offset):
            yield Violation("a batch is there as a whole", f"{name} has it at {found}: {send}")
        if send.is_idempotent:
            sequence, offset = before.get(send.producer_id, (-1, -1))
            if offset >= offsets[0]:
                yield Violation(
                    "a producer's batches keep their order",
                    f"{name}: sequence {sequence} is at {offset}, after {send.sequence} at {offsets[0]}",
                )
            before[send.producer_id] = (send.sequence, offsets[-1])


def _streams_in_order(history: History, partition: Partition, log: FinalLog) -> Iterator[Violation]:
    """The records of a library producer are in the order of its calls, despite retries and failures."""
    places = {seen.value: seen.offset for seen in log.records}
    before: dict[str, Send] = {}
    for send in history.sends:
        if not send.stream or send.partition != partition or send.values[0] not in places:
            continue
        last = before.get(send.stream)
        if last is not None and places[last.values[0]] > places[send.values[0]]:
            yield Violation(
                "a producer's records keep their order",
                f"{places[last.values[0]]} has {last}; {places[send.values[0]]} has {send}",
            )
        before[send.stream] = send


def _is_whole(found: list[list[int]], offsets: list[int], start_offset: int) -> bool:
    """All of it in a row; deleting may have taken its beginning."""
    missing = len(found) - len(offsets)
    is_cut = offsets[0] == start_offset and not any(found[:missing])
    return (not missing or is_cut) and offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def _read_once(history: History) -> Iterator[Violation]:
    places: dict[tuple[int, bytes], tuple[int, Read]] = {}
    for read in history.reads:
        era = history.era(read.incarnation)
        for seen in read.records:
            if seen.marker is not None:
                continue
            offset, first = places.setdefault((era, seen.value), (seen.offset, read))
            if offset != seen.offset:
                yield Violation(
                    "a batch is read at one place",
                    f"{seen.value[:60]!r} at {offset} ({first}) and {seen.offset} ({read})",
                )
