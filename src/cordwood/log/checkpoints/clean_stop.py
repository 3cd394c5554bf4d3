"""The file written by a clean shutdown, so that the next start can detect missing data: each log's end offset and size.

Kafka ignores the file if it runs on the directory in between. It therefore names its shutdown by the broker epoch (as
`.kafka_cleanshutdown` does), and is ignored after any other.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cordwood.runtime.disk import Disk

from .formats import CHECKSUM_ROW, CorruptCheckpoint, decode_table, encode_table, rows_checksum
from .offset_checkpoint import TopicPartition

CLEAN_STOP = "clean-stop-checkpoint"


class LogEnd(NamedTuple):
    end_offset: int
    log_bytes: int


def write_clean_stop(disk: Disk, broker_epoch: int, ends: Mapping[TopicPartition, LogEnd]) -> None:
    rows = [f"{topic} {partition} {end.end_offset} {end.log_bytes}" for (topic, partition), end in ends.items()]
    seal = f"{CHECKSUM_ROW[0]} {CHECKSUM_ROW[1]} {rows_checksum(rows)} {broker_epoch}"
    disk.write_file(CLEAN_STOP, encode_table([*rows, seal]))


def read_clean_stop(disk: Disk, broker_epoch: int) -> dict[TopicPartition, LogEnd]:
    """The file of the shutdown with that broker epoch; empty if there is none. Raises CorruptCheckpoint."""
    data = disk.read_file(CLEAN_STOP)
    if data is None:
        return {}
    *rows, seal = decode_table(CLEAN_STOP, data, 4) or [["", "", "", ""]]
    if seal[0] != CHECKSUM_ROW[0] or int(seal[2]) != rows_checksum(" ".join(row) for row in rows):
        raise CorruptCheckpoint(f"{CLEAN_STOP}: its checksum is missing or does not match")
    if int(seal[3]) != broker_epoch:
        return {}
    return {(topic, int(partition)): LogEnd(int(end), int(size)) for topic, partition, end, size in rows}
