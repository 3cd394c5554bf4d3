"""Acknowledged and read records exist at the end, unless they were deleted.

With `Promise.PREFIX` that holds for records seen since the last power loss.
"""

from collections.abc import Iterator

from cordwood.sim.clients.batches import MAX_AGE_MS
from cordwood.sim.histories.history import FinalLog, History, Outcome, Partition

from .violation import Violation


def nothing_promised_is_lost(history: History) -> Iterator[Violation]:
    last_incarnation = max((log.incarnation for log in history.final.values()), default=0)
    last_era = history.era(last_incarnation)

    for partition, log in history.final.items():
        name = f"{partition[0]}-{partition[1]}"
        yield from _deletions(history, partition, log, history.deleted_to(partition))
        offsets = [seen.offset for seen in log.records]
        if partition[0] not in history.compacted and offsets != list(range(log.start_offset, log.high_watermark)):
            yield Violation(
                "a log has no gap",
                f"{name} from {log.start_offset} to {log.high_watermark} has {_ranges(offsets)}",
            )
        for send in history.acknowledged():
            if send.partition != partition or history.era(send.incarnation) != last_era:
                continue
            if send.last_offset >= log.high_watermark:
                yield Violation("nothing acknowledged is lost", f"{name} ends at {log.high_watermark}: {send}")
        yield from _without_an_offset(history, partition, log, last_era)
        for read in history.reads:
            if read.partition != partition or history.era(read.incarnation) != last_era:
                continue
            if read.begun_s >= log.read_s:
                # It came after the last reading, and a marker or a late request may have come between the two.
                continue
            if read.records and read.records[-1].offset >= log.high_watermark:
                yield Violation("records that were read stay", f"{name} ends at {log.high_watermark}: {read}")

    refused = {value: send for send in history.sends if send.outcome is Outcome.REFUSED for value in send.values}
    for partition, log in history.final.items():
        for seen in log.records:
            if seen.value in refused:
                yield Violation(
                    "refused batches are not appended",
                    f"{partition[0]}-{partition[1]}@{seen.offset}: error {refused[seen.value].error}, "
                    f"{refused[seen.value]}",
                )


def _without_an_offset(history: History, partition: Partition, log: FinalLog, era: int) -> Iterator[Violation]:
    """For a retried batch a broker may know only that it is a duplicate."""
    if log.start_offset > 0 or partition[0] in history.compacted or history.is_loose(partition):
        return
    there = {seen.value for seen in log.records}
    for send in history.sends:
        if send.outcome is not Outcome.ACKNOWLEDGED or send.partition != partition or send.base_offset >= 0:
            continue
        if history.era(send.incarnation) == era and not there.issuperset(send.values):
            yield Violation("nothing acknowledged is lost", f"{partition[0]}-{partition[1]} does not have {send}")


def _deletions(history: History, partition: Partition, log: FinalLog, deleted_to: int) -> Iterator[Violation]:
    name = f"{partition[0]}-{partition[1]}"
    if log.start_offset > deleted_to and history.retention_s == float("inf") and not history.is_loose(partition):
        yield Violation(
            "records are deleted only on request",
            f"{name} starts at {log.start_offset}; deletions went to {deleted_to}",
        )
    for send in history.acknowledged():
        is_gone = send.partition == partition and deleted_to <= send.base_offset < log.start_offset
        if is_gone and send.begun_s > log.read_s - history.retention_s + MAX_AGE_MS / 1000:
            yield Violation("nothing is deleted before its time", f"{name} starts at {log.start_offset}: {send}")
    for deletion in history.deletions:
        if deletion.partition == partition and deletion.low_watermark > log.start_offset:
            yield Violation("deleted records stay deleted", f"{name} starts at {log.start_offset}: {deletion}")


def _ranges(offsets: list[int]) -> str:
    """1..5, 7..9"""
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ", ".join(f"{first}..{last}" for first, last in ranges[:20]) or "nothing"
