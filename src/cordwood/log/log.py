"""One partition's log: append, truncate, delete; reading is in `readable_log`. `recovery.open_log` opens one.

The log is owned by one thread. Time is passed in. The owner calls `flush` (or `begin_flush` and `end_flush` around a
thread) when `flush_due` returns true, runs the `removals` that are due, and writes the directory's checkpoints.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cordwood.log.idempotence.markers import end_txn_of
from cordwood.log.idempotence.producers import AppendOrigin, Producer, Producers
from cordwood.log.idempotence.replay import note_batch
from cordwood.log.idempotence.snapshots import ProducerSnapshots
from cordwood.log.storage.index import MAX_RELATIVE_OFFSET, Place
from cordwood.log.storage.rolling import Room, should_roll
from cordwood.log.storage.segment import Segment
from cordwood.log.storage.segments import Segments
from cordwood.runtime.disk import Buffer
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc
from cordwood.wire.control import EndTxnMarker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.record import CorruptBatch

from .config import LogConfig
from .durability import Durability, FlushJob
from .epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, LeaderEpochs
from .files import DELETED, LOG, SWAP
from .readable_log import ReadableLog
from .removals import Removals
from .steps import Steps, do_all
from .validation import accept_batch

# Above all leader epochs, which have 32 bits.
_ANY_EPOCH = 2**31
# Cost of renaming a segment's files.
_FILES_STEPS = 4

logger = logging.getLogger(__name__)


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    # -1 if the topic keeps the producer's timestamps.
    log_append_time_ms: int
    is_duplicate: bool = False


class Log(ReadableLog):
    def __init__(
        self,
        place: Place,
        config: LogConfig,
        random: Random,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: Producers,
        snapshots: ProducerSnapshots,
        *,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        now_ms: int,
        removals: Removals | None = None,
        make_files: Callable[[], None] | None = None,
        is_clean: bool = False,
    ) -> None:
        super().__init__(place, segments, epochs, producers, snapshots, start_offset, end_offset)
        self.config = config
        is_new = make_files is not None
        self.durability = Durability(place, segments, epochs, snapshots, recovery_point, now_ms, is_new=is_new)
        self._random = random
        # For a log without files: called before the first write, or when the files are needed.
        self._make_files = make_files
        # True if a clean shutdown may have something to write.
        self._is_touched = not is_clean
        # Limits within which the active segment needs no further checks.
        self._room: Room | None = None
        # Files renamed for deletion: shared by the logs of a directory.
        self.removals = removals or Removals(place.disk)
        self.active.roll_jitter_ms = self._roll_jitter_ms()

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.start_offset}..{self.end_offset})"

    @property
    def has_files(self) -> bool:
        """A new log has no files until its first batch (see `creation`)."""
        return self._make_files is None

    def make_files(self) -> None:
        if self._make_files is not None:
            self._make_files()
            self._make_files = None

    @property
    def active(self) -> Segment:
        return self.segments.active

    @property
    def size(self) -> int:
        return self.segments.size

    # Appending

    def append_as_leader(
        self, data: Buffer, leader_epoch: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> Appended:
        """Validates the batch, assigns the next offsets and writes it. Raises Refusal if nothing was written."""
        config = self.config
        batch, header = accept_batch(data, self.end_offset, leader_epoch, config, origin, now_ms)
        append_time = -1 if config.keeps_batches or not config.uses_log_append_time else now_ms
        marker = None
        is_producers = header.has_producer_id
        if is_producers:
            if origin is AppendOrigin.CLIENT:
                duplicate = self.producers.find_duplicate(header)
                if duplicate is not None:
                    return Appended(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)
            marker = end_txn_of(batch, header)
            self.producers.check(header, origin, marker)
        if header.size > config.segment_bytes:
            raise Refusal(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"the record batch has {header.size} bytes, more than segment.bytes ({config.segment_bytes})",
            )
        first_offset, last_offset = header.base_offset, header.last_offset
        self.epochs.assign(leader_epoch, first_offset)
        segment = self._segment_for(first_offset, last_offset, header.max_timestamp, len(batch), now_ms)
        segment.append_batch(batch, header)
        if is_producers:
            note_batch(self.producers, segment, header, marker)
        self._has_grown_to(last_offset + 1)
        return Appended(first_offset, last_offset, append_time)

    def append_as_follower(self, data: Buffer, now_ms: int, leader_epoch: int = _ANY_EPOCH) -> Appended | None:
        """Appends whole batches as received from the leader; ignores a batch cut short at the end.

        Ignores batches of an epoch above `leader_epoch`: a later leader appended them, while this replica still follows
        an earlier one.
        """
        headers: list[BatchHeader] = []
        markers: list[EndTxnMarker | None] = []
        next_offset, length = self.end_offset, 0
        view = memoryview(data)
        try:
            for position, header in batch_headers(data):
                check_crc(data, header, position)
                if header.magic >= 2 and header.leader_epoch > leader_epoch:
                    break
                if header.base_offset < next_offset and not (header.magic < 2 and header.last_offset >= next_offset):
                    raise Refusal(
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        f"a batch at offset {header.base_offset} does not follow {next_offset - 1} in {self.directory}",
                    )
                length = position + header.size
                headers.append(header)
                markers.append(end_txn_of(view[position:length], header) if header.has_producer_id else None)
                next_offset = header.next_offset
        except CorruptBatch as error:
            raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if not headers:
            return None
        for header in headers:
            if header.magic >= 2:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            else:
                # Batches from before KIP-101 have no epoch; known epochs cannot be trusted past them.
                self.epochs.clear()
        first_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        max_timestamp = max(header.max_timestamp for header in headers)
        segment = self._segment_for(first_offset, last_offset, max_timestamp, length, now_ms)
        segment.append(view[:length], headers)
        for header, marker in zip(headers, markers, strict=True):
            if header.has_producer_id:
                note_batch(self.producers, segment, header, marker)
        self._has_grown_to(last_offset + 1)
        return Appended(first_offset, last_offset, -1)

    def _has_grown_to(self, end_offset: int) -> None:
        self._is_touched = True
        self.end_offset = self.producers.end_offset = end_offset

    # Rolling

    def _segment_for(
        self, first_offset: int, last_offset: int, max_timestamp: int, more_bytes: int, now_ms: int
    ) -> Segment:
        """The segment for the next batches: a new one if the active one is due for a roll."""
        segment, config, room = self.segments.active, self.config, self._room
        if (
            room is not None
            and segment.file.size + more_bytes <= room.bytes
            and max_timestamp <= room.timestamp
            and last_offset <= room.offset
            and segment is room.segment
            and config is room.config
        ):
            return segment
        self.make_files()
        if should_roll(segment, config, more_bytes, max_timestamp, last_offset, now_ms):
            return self._roll_for(last_offset, first_offset, now_ms)
        if segment.file.size > 0:
            self._room = Room(segment, config)
        return segment

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Starts a new segment at the end of the log (or further on, if a follower meets a gap)."""
        base_offset = self.end_offset if base_offset is None else base_offset
        active = self.active
        if active.base_offset == base_offset and active.size == 0:
            return active
        active.seal()
        self._is_touched = True
        self.durability.sealed(active, self.end_offset)
        self.producers.end_offset = base_offset
        self.snapshots.write(self.producers)
        segment = self._create_segment(base_offset, now_ms)
        self.segments.add(segment)
        return segment

    def _roll_for(self, last_offset: int, first_offset: int, now_ms: int) -> Segment:
        """The base offset if a batch must start a new segment. Segments follow each other without gaps, so that
        recovery can detect losses between them; the exception is offsets too far apart for one segment."""
        if last_offset - self.end_offset <= MAX_RELATIVE_OFFSET:
            return self.roll(now_ms)
        self.flush(now_ms)
        return self.roll(now_ms, first_offset)

    def _create_segment(self, base_offset: int, now_ms: int) -> Segment:
        self.make_files()
        self.durability.names_changed()
        return Segment.create(self.place, base_offset, now_ms, self._roll_jitter_ms())

    def _roll_jitter_ms(self) -> int:
        """Prevents partitions that were created or opened together from rolling together."""
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._random.below(bound) if bound > 0 else 0

    # Flushing

    def flush_due(self, now_ms: int) -> bool:
        """True if `flush.messages` or `flush.ms` demand a flush; and, as in Kafka, after a roll, so that after a crash
        of a log without flush settings not all of it has to be scanned."""
        return self.durability.flush_due(self.end_offset, self.config, now_ms)

    def flush(self, now_ms: int, *, all_indexes: bool = False) -> None:
        is_whole = False
        while not is_whole:
            job = self.begin_flush(now_ms, all_indexes=all_indexes)
            job.run()
            self.end_flush(job)
            is_whole = job.is_whole

    def begin_flush(self, now_ms: int, *, all_indexes: bool = False) -> FlushJob:
        """Prepares a flush that moves the recovery point to the end of the log, or part of the way."""
        self.make_files()
        return self.durability.begin_flush(self.end_offset, now_ms, all_indexes=all_indexes)

    def end_flush(self, job: FlushJob) -> None:
        self.durability.end_flush(job)

    def close(self, now_ms: int) -> None:
        """After this the log opens without recovery, provided that the directory's checkpoints are written too."""
        self.write_out()
        self.purge(None)
        self.flush(now_ms, all_indexes=True)
        self.release()

    def write_out(self) -> None:
        """Writes everything that is only in memory; the owner syncs it (a directory syncs once for all its logs)."""
        if self._is_touched or self.epochs.changed:
            self.active.seal()
            self.snapshots.write(self.producers)
            self.durability.write_epochs()

    def release(self) -> None:
        """Releases files and caches. The log must not be used afterwards."""
        for segment in self.segments:
            segment.forget()
            segment.close()

    def discard(self) -> None:
        """Like `release`, before the partition's directory is renamed: later reads raise FileGone."""
        self.release()
        for segment in self.segments:
            segment.discard()
        self.removals.forget(self.directory)

    # Moving the ends

    def advance_high_watermark(self, offset: int) -> None:
        """May also decrease on a follower, if the leader says so; it always stays within the log."""
        if offset > self.end_offset:
            offset = self.end_offset
        if offset < self.start_offset:
            offset = self.start_offset
        self.high_watermark = offset
        self.producers.on_high_watermark(offset)

    def advance_start(self, offset: int) -> None:
        """For DeleteRecords and retention: earlier records become unreadable, and their segments may be deleted."""
        if offset > self.high_watermark:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the log cannot start at {offset}, which is past its high watermark {self.high_watermark}",
            )
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.truncate_from_start(offset)

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drops `offset` and everything above; returns False if there is nothing. The recovery point may decrease:
        checkpoint it.

        An offset inside a batch drops the whole batch, so that the log ends where its data does.
        """
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return False
        self._is_touched = True
        logger.info("Truncating %s from offset %d to offset %d", self.directory, self.end_offset, offset)
        boundary = self._batch_boundary(offset)
        if boundary < self.segments.first.base_offset or boundary < min(self.start_offset, offset):
            # Nothing readable is left, and deleted offsets are not assigned again.
            self.truncate_fully(offset if boundary == offset else min(self.start_offset, offset), now_ms)
            return True
        offset = boundary
        # From the end backwards, each step durable before the next, so that a crash never leaves a hole.
        beyond = self.segments.between(offset + 1, self.end_offset + 1)
        for segment in reversed(beyond):
            self._retire_segment(segment, now_ms)
        if beyond:
            self.disk.sync_directory(self.directory)
        self.durability.truncated()
        self.active.truncate_to(offset)
        self._set_end(offset)
        self.start_offset = min(self.start_offset, offset)
        self.epochs.truncate_from_end(offset)
        self.reload_producers(now_ms)
        return True

    def truncate_to_epoch(self, epoch: int, end_offset: int, now_ms: int) -> bool:
        """Truncates a follower by its leader's answer for the follower's latest epoch (KIP-101, KIP-279).

        The leader returns the largest epoch not above it that it knows, with its end offset. Returns False if this log
        does not know that epoch and has to ask again with its new latest one.
        """
        if end_offset == UNDEFINED_OFFSET:
            # The leader knows no epochs that old: only committed records are certain.
            self.truncate_to(self.high_watermark, now_ms)
            return True
        known, known_end = self.end_offset_for_epoch(epoch)
        if known == UNDEFINED_EPOCH:
            self.truncate_to(end_offset, now_ms)
            return True
        if known != epoch:
            self.truncate_to(known_end, now_ms)
            return False
        self.truncate_to(min(known_end, end_offset), now_ms)
        return True

    def _batch_boundary(self, offset: int) -> int:
        """The base offset of the batch that contains `offset`; `offset` itself between batches."""
        segment = self.segments.floor(offset)
        found = None if segment is None else segment.locate(offset)
        return offset if found is None else min(offset, found[1].base_offset)

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Deletes all records and restarts the log at `offset`: the leader no longer has anything in between."""
        self._is_touched = True
        self.make_files()
        logger.info("Deleting all segments of %s; the log restarts at offset %d", self.directory, offset)
        # The new segment exists before the last old one is removed, so that a crash never resets the log to offset 0.
        before = self.segments.between(0, offset)
        for segment in reversed(self.segments.from_floor(offset)):
            if segment.base_offset >= offset:
                self._retire_segment(segment, now_ms)
        self.durability.truncated()
        if before and before[-1].next_offset() > offset:
            # Nor must a crash leave it beside a segment that begins within it, or with a hole after it.
            self.disk.sync_directory(self.directory)
            before[-1].truncate_to(offset)
            before[-1].file.sync()
        self.segments.add(self._create_segment(offset, now_ms))
        for segment in before:
            self._retire_segment(segment, now_ms)
        self._set_end(offset)
        self.start_offset = offset
        self.epochs.clear()
        for snapshot in list(self.snapshots.offsets):
            self.snapshots.remove(snapshot)
        self.producers = Producers(self.producers.expiration_ms, offset)
        self.high_watermark = offset

    def _set_end(self, offset: int) -> None:
        self.end_offset = offset
        self.durability.cut_to(offset)
        self.high_watermark = min(self.high_watermark, offset)
        self._files_changed()
        self._room = None

    def remember(self, producers: Iterable[Producer]) -> None:
        """Takes over the producers that wrote the records before this empty log's start."""
        self.durability.names_changed()
        self.producers = Producers(self.producers.expiration_ms, self.end_offset, producers)
        self.snapshots.write(self.producers)

    def reload_producers(self, now_ms: int) -> None:
        """Loads the producer state at the end of the log, from the last snapshot before it and the log since."""
        self.durability.names_changed()
        self.snapshots.trim(self.start_offset, self.end_offset)
        self.producers = self._producers_at(self.end_offset, now_ms)
        self.producers.on_high_watermark(self.high_watermark)

    # Deleting

    def delete_segments(self, segments: list[Segment], now_ms: int, reason: str) -> None:
        """Removes segments from the head of the log; their files are deleted in two steps."""
        if not segments:
            return
        if len(segments) == len(self.segments):
            self.roll(now_ms)
        if segments[-1] is self.active:
            # It was empty: there is nothing to roll, and nothing of it to delete.
            segments = segments[:-1]
        for segment in segments:
            logger.info("Deleting %s: %s", segment, reason)
            following = self.segments.after(segment)
            assert following is not None
            self.advance_start(following.base_offset)
            self._retire_segment(segment, now_ms)

    def replace_segments(self, cleaned: list[Segment], old: list[Segment], now_ms: int) -> None:
        do_all(self.replacing_segments(cleaned, old, now_ms))

    def replacing_segments(self, cleaned: list[Segment], old: list[Segment], now_ms: int) -> Steps[None]:
        """Compaction's swap. `cleaned` are complete and synced as `.cleaned`. A crash at any step leaves either the old
        segments or the cleaned ones: while one `.cleaned` file is left the `.swap` files after it do not count, and
        from then on opening the log completes the swap.

        Between the steps the log may only be read and appended to. Must not be continued once the log is discarded.
        """
        self._is_touched = True
        for segment in reversed(cleaned):
            segment.set_stage(SWAP)
            yield _FILES_STEPS
        yield self.disk.sync_job([], [self.directory])
        kept_bases = {segment.base_offset for segment in cleaned}
        waiting = deque(old)
        ends = [*(segment.base_offset for segment in cleaned[1:]), old[-1].base_offset + 1]
        for segment, end in zip(cleaned, ends, strict=True):
            # Swap one segment for those it replaces: readers always see a complete log.
            steps = _FILES_STEPS
            while waiting and waiting[0].base_offset < end:
                replaced = waiting.popleft()
                self._retire_segment(replaced, now_ms, keep_snapshot=replaced.base_offset in kept_bases)
                steps += _FILES_STEPS
            segment.set_stage("")
            self.segments.add(segment)
            self._files_changed()
            yield steps
        yield self.disk.sync_job([], [self.directory])

    def _retire_segment(self, segment: Segment, now_ms: int, *, keep_snapshot: bool = False) -> None:
        self.segments.remove(segment)
        self.durability.retired(segment)
        segment.forget()
        segment.set_stage(DELETED)
        due_ms = now_ms + self.config.file_delete_delay_ms
        self.removals.add(due_ms, segment.path(LOG), segment.file)
        for index in segment.indexes:
            if index.is_stored if index is segment.txn_index else segment.has_index_files:
                self.removals.add(due_ms, index.path)
        if not keep_snapshot:
            path = self.snapshots.mark_deleted(segment.base_offset)
            if path is not None:
                self.removals.add(due_ms, path)

    def purge(self, now_ms: int | None) -> None:
        """Runs the due deletions (None: all), for a log without a directory."""
        do_all(self.removals.purging(now_ms))
