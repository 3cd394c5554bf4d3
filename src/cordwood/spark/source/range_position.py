"""Progress in a range of offsets, and how a response advances it; sans-IO.

A range is done when the position has reached its end, whether or not there was a record just before that: compaction
and transaction markers leave gaps, which are no loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.fetch_sizes import FetchSizes
from cordwood.spark.source.loss import LossReport
from cordwood.wire.messages.fetch import AbortedTransaction, PartitionData
from cordwood.wire.record import Buffer, CorruptBatch
from cordwood.wire.records import batch_headers

_EMPTY_ANSWERS = 2
"""So often a broker has to say that there is nothing before it is believed that there never will be."""


@dataclass(frozen=True, slots=True)
class Fetched:
    content: Buffer
    """Whole batches, and perhaps the beginning of another."""
    position: int
    """The first offset to keep; the first batch may hold records before it."""
    aborted: Sequence[AbortedTransaction]


class RangePosition:
    def __init__(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        read_committed: bool,
        sizes: FetchSizes | None = None,
    ) -> None:
        """`sizes` has statistics of other ranges, and gets this one's."""
        self.partition = partition
        self.offset = start
        """The next to be read."""
        self.end = end
        self._read_committed = read_committed
        self._sizes = sizes if sizes is not None else FetchSizes()
        self._empty_answers = 0

    @property
    def is_done(self) -> bool:
        return self.offset >= self.end

    def wanted_bytes(self, most: int) -> int:
        """Bytes to request next."""
        return self._sizes.enough_for(self.partition, self.end - self.offset, most)

    def take(self, data: PartitionData) -> Fetched | None:
        """Advances past whole batches; None if there are none. Raises `CannotRead`."""
        content = data.records
        if not content:
            self._take_nothing(data)
            return None
        assert isinstance(content, bytes | bytearray | memoryview)
        self._empty_answers = 0
        before = self.offset
        begin, size, largest = before, 0, 0
        try:
            # The last batch may be cut off at the limit; it is not included.
            for _, header in batch_headers(content):
                self.offset = max(self.offset, header.next_offset)
                begin = min(begin, header.base_offset)
                size, largest = size + header.size, max(largest, header.size)
        except CorruptBatch as error:
            raise CannotRead(f"{self.partition} at offset {self.offset}: {error}") from None
        if self.offset == before:
            raise CannotRead(f"{self.partition} at offset {before}: the broker's response contains no complete batch")
        self._sizes.learn(self.partition, offsets=self.offset - begin, size=size, largest_batch=largest)
        return Fetched(content, before, data.aborted_transactions or ())

    def _take_nothing(self, data: PartitionData) -> None:
        """Compaction may have removed all records from here to the end of the log."""
        readable_end = data.last_stable_offset if self._read_committed else data.high_watermark
        self._empty_answers = self._empty_answers + 1 if self.end <= readable_end else 0
        if self._empty_answers == _EMPTY_ANSWERS:
            self.offset = self.end

    def out_of_range(self, log_start: int, log_end: int, losses: LossReport) -> None:
        """Retention has deleted the records, or the log was replaced."""
        if self.offset < log_start:
            losses.begins_later(self.partition, self.offset, log_start)
            self.offset = min(log_start, self.end)
        elif self.offset > log_end:
            losses.ends_earlier(self.partition, self.offset, log_end)
            self.offset = self.end
        # Otherwise it is there by now.
