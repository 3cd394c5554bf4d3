"""Records deleted before they were read: an error, or a warning with `failOnDataLoss=false`."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import DataLoss

_log = logging.getLogger(__name__)

_ADVICE = "set failOnDataLoss=false to continue with the records that remain"


@dataclass(frozen=True, slots=True)
class LossReport:
    """Raises `DataLoss`, or logs a warning."""

    fails: bool

    def begins_later(self, partition: TopicPartition, wanted: int, begin: int) -> None:
        self._report(
            f"topic {partition.topic} partition {partition.partition}: records from offset {wanted} to {begin} were "
            "deleted, by retention or manually, before they were read"
        )

    def ends_earlier(self, partition: TopicPartition, wanted: int, end: int) -> None:
        self._report(
            f"topic {partition.topic} partition {partition.partition}: it ends at offset {end}, but offset {wanted} "
            "was already read; the topic may have been deleted and recreated"
        )

    def gone(self, partitions: Collection[TopicPartition]) -> None:
        names = ", ".join(str(partition) for partition in sorted(partitions))
        self._report(f"{names}: read earlier, but no longer exists")

    def added_late(self, partition: TopicPartition, begin: int) -> None:
        self._report(
            f"topic {partition.topic} partition {partition.partition}: it is new to this query and begins at offset "
            f"{begin} instead of 0; records from 0 to {begin} were deleted"
        )

    def not_there(self, option: str, partition: TopicPartition, offset: int, begin: int, end: int) -> None:
        self._report(
            f"{option} has offset {offset} of topic {partition.topic} partition {partition.partition}, which can be "
            f"read from {begin} to {end}"
        )

    def _report(self, sentence: str) -> None:
        if self.fails:
            raise DataLoss(f"{sentence}; {_ADVICE}")
        _log.warning("%s; continuing, because failOnDataLoss is false", sentence)
