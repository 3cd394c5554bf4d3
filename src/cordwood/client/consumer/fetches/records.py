"""One partition's part of a fetch response: whole batches, decoded when the application takes them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.deserialization import Deserialization
from cordwood.client.consumer.fetches.aborted import Aborted
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadAnswer, ClientError, SerializationFailed
from cordwood.wire.messages.fetch import PartitionData
from cordwood.wire.record import Buffer, ConsumerRecord
from cordwood.wire.records import BatchHeader, BatchReader, CorruptBatch, InvalidRecord, batch_headers, check_crc

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from cordwood.wire.record_text import RecordText

_BAD_RECORDS = (CorruptBatch, InvalidRecord)


class FetchedRecords:
    """`offset` and `epoch` are the current position; everything is consumed if `is_drained`."""

    def __init__(
        self, partition: TopicPartition, data: PartitionData, fetch_offset: int, settings: ConsumerSettings
    ) -> None:
        content = data.records
        assert isinstance(content, bytes | bytearray | memoryview)
        self.partition = partition
        self.size = len(content)
        self.offset = fetch_offset
        self.epoch: int | None = None
        """None before anything was taken."""
        self.is_drained = False
        self._content = content
        self._settings = settings
        self._transactions = data.aborted_transactions or ()
        self._walk()
        self._header: BatchHeader | None = None
        self._reader: BatchReader | None = None
        # Decoded, but a deserializer failed on the first one.
        self._refused: list[ConsumerRecord] = []
        self._skipped: set[int] = set()
        # For `arrow`, if not everything fits at once.
        self._one_by_one: Iterator[tuple[int, BatchHeader]] | None = None
        self._is_decoded = False
        self._error: ClientError | None = None
        self.next_offset = self._find_end(fetch_offset)
        """The offset of the next fetch."""

    def _walk(self) -> None:
        """Iterates over batches from the first one on; records before `offset` are skipped."""
        is_read_committed = self._settings.isolation_level == "read_committed"
        self._aborted = Aborted(self._transactions) if is_read_committed else None
        self._batches: Iterator[tuple[int, BatchHeader]] = batch_headers(self._content)

    def _find_end(self, fetch_offset: int) -> int:
        end = fetch_offset
        try:
            # The last batch may be cut off at the limit; it is not included.
            for _, header in batch_headers(self._content):
                end = header.next_offset
        except CorruptBatch:
            # Raised when the application gets there.
            return end
        if end <= fetch_offset and self.size > 0:
            self._error = self._bad(fetch_offset, "the broker's response contains no complete batch")
        return max(end, fetch_offset)

    def take(self, most: int) -> list[ConsumerRecord]:
        """Returns the next records. None but not drained: `most` is 0. Raises `BadAnswer` or `SerializationFailed`
        repeatedly if the next record is invalid: `offset` stays before it."""
        epoch_before = self.epoch
        records = self._decode(most)
        if self._settings.key_deserializer is None and self._settings.value_deserializer is None:
            return records
        return self._deserialize(records, epoch_before)

    def _decode(self, most: int) -> list[ConsumerRecord]:
        if self._refused:
            records, self._refused = self._refused[:most], self._refused[most:]
            self.offset = self._refused[0].offset if self._refused else records[-1].offset + 1
            if not self._refused and self._is_decoded:
                self.offset = self.next_offset
                self.is_drained = True
            return records
        if self._error is not None:
            raise self._error
        if self._one_by_one is not None:
            self._one_by_one = None
            self._walk()
        records = []
        try:
            while len(records) < most:
                if self._reader is None and not self._open_next():
                    break
                assert self._reader is not None
                taken = self._reader.take(most - len(records))
                records = records + taken if records else taken
                if taken:
                    self.offset = taken[-1].offset + 1
                    self.epoch = taken[-1].leader_epoch
                if not self._reader.left:
                    self._close_batch()
        except _BAD_RECORDS as error:
            self._error = self._bad(self.offset, error)
            if not records:
                raise self._error from error
        return records

    def render(self, text: "RecordText", most: int, end_offset: int) -> int:
        """Like `take`, but renders text, and skips records from `end_offset` on. Returns the number of records.
        Deserializers are not called."""
        if self._error is not None:
            raise self._error
        written = 0
        try:
            while written < most and (self._reader is not None or self._open_next()):
                assert self._reader is not None
                written += text.read(self._reader, most - written, end_offset)
                self.offset = max(self.offset, self._reader.next_offset)
                assert self._header is not None
                self.epoch = self._header.leader_epoch
                if not self._reader.left:
                    self._close_batch()
        except _BAD_RECORDS as error:
            self._error = self._bad(self.offset, error)
            if not written:
                raise self._error from error
        return written

    def _open_next(self) -> bool:
        """Opens the next batch with records; False at the end."""
        for place, header in self._batches:
            self._header = header
            if self._is_readable(place, header):
                self._reader = BatchReader(self._content, place, header, *self.partition, self.offset)
                return True
            self._close_batch()
        self._drained()
        return False

    def _is_readable(self, place: int, header: BatchHeader) -> bool:
        if self._settings.check_crcs:
            check_crc(self._content, header, place)
        if self._aborted is not None and self._aborted.covers(header, self._content, place):
            self._skipped.add(header.base_offset)
            return False
        return not header.is_control

    def _close_batch(self) -> None:
        """Moves past the batch's last offset, since compaction may have removed its last records."""
        assert self._header is not None
        self._reader = None
        self.offset = max(self.offset, self._header.next_offset)
        self.epoch = self._header.leader_epoch
        if self.offset >= self.next_offset:
            self._drained()

    def _drained(self) -> None:
        self.is_drained = self._is_decoded = True

    def _deserialize(self, records: list[ConsumerRecord], epoch_before: int | None) -> list[ConsumerRecord]:
        deserialized = Deserialization(self._settings)
        done: list[ConsumerRecord] = []
        for record in records:
            try:
                read = deserialized(record)
            except Exception as error:  # any error of the application's own function
                self._refused = records[len(done) :] + self._refused
                self.offset = record.offset
                self.epoch = done[-1].leader_epoch if done else epoch_before
                self.is_drained = False
                if done:
                    return done
                raise SerializationFailed(
                    f"{self.partition}: the record at offset {record.offset} cannot be deserialized: {error}; "
                    "seek past it to continue",
                    self.partition,
                    record.offset,
                ) from error
            done.append(read)
        return done

    def rewind(self, offset: int) -> None:
        """Marks records from `offset` on as unused; `arrow` returns them again."""
        self.offset = offset
        self._one_by_one = None

    def arrow(self, *, headers: bool) -> "pa.RecordBatch":
        """Returns everything that is left, without an object per record; or the batches before an invalid one, which is
        raised next time. Deserializers are not called."""
        if self._error is not None:
            raise self._error
        if self._one_by_one is None:
            try:
                self._skip_aborted()
                batch = self._columns(self._content, headers)
            except _BAD_RECORDS:
                # One is invalid, or together they exceed the limit of a column.
                self._one_by_one = batch_headers(self._content)
            else:
                for _, header in batch_headers(self._content):
                    self.epoch = header.leader_epoch
                self._end_arrow()
                return batch
        return self._next_columns(self._one_by_one, headers)

    def _skip_aborted(self) -> None:
        if self._aborted is not None:
            for place, header in self._batches:
                if self._aborted.covers(header, self._content, place):
                    self._skipped.add(header.base_offset)

    def _next_columns(self, batches: Iterator[tuple[int, BatchHeader]], headers: bool) -> "pa.RecordBatch":
        """Returns the columns of one batch; None at the end."""
        content = memoryview(self._content)
        try:
            for place, header in batches:
                if header.next_offset <= self.offset:
                    continue
                batch = self._columns(content[place : place + header.size], headers)
                self.offset = header.next_offset
                self.epoch = header.leader_epoch
                if batch.num_rows:
                    if self.offset >= self.next_offset:
                        self._end_arrow()
                    return batch
        except _BAD_RECORDS as error:
            self._error = self._bad(self.offset, error)
            raise self._error from error
        self._end_arrow()
        return self._columns(b"", headers)

    def _columns(self, content: Buffer, headers: bool) -> "pa.RecordBatch":
        from cordwood.wire.arrow import to_arrow

        return to_arrow(
            content,
            start_offset=self.offset,
            headers=headers,
            check_crcs=self._settings.check_crcs,
            skipped=self._skipped,
        )

    def _end_arrow(self) -> None:
        self.offset = self.next_offset
        self._reader = None
        self._refused = []
        self._drained()

    def _bad(self, offset: int, reason: object) -> ClientError:
        return BadAnswer(f"{self.partition} at offset {offset}: {reason}; seek past it to continue")
