"""Looking an offset up by a timestamp finds the first record that is not older."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def timestamps_are_found(history: History) -> Iterator[Violation]:
    for partition, timestamp, offset, found_timestamp in history.looked_up:
        records = history.final[partition].records
        if partition[0] in history.compacted:
            continue
        if offset < 0 and history.final[partition].start_offset > 0:
            # As in Kafka, records that are deleted and still on disk may lead to the wrong segment.
            continue
        expected = next(((seen.offset, seen.timestamp) for seen in records if seen.timestamp >= timestamp), (-1, -1))
        if (offset, found_timestamp) != expected:
            yield Violation(
                "a timestamp finds the first record that is not older",
                f"{partition[0]}-{partition[1]}: {timestamp} gives {(offset, found_timestamp)}, not {expected}",
            )
