"""Ways to break a node. The checks have to find each."""

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

import pytest

from cordwood.broker.background import Background
from cordwood.broker.fetch import reading as fetch_read
from cordwood.log import recovery, retention
from cordwood.log.cleaning import compaction
from cordwood.log.cleaning.offset_map import OffsetMap
from cordwood.log.dirs import directory
from cordwood.log.durability import FlushJob
from cordwood.log.idempotence.producers import Producers
from cordwood.log.log import Log
from cordwood.replica.partition import Partition

# Its package has a name for the handler, and not for the module.
delete_records = importlib.import_module("cordwood.broker.handlers.delete_records")

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


def acknowledge_before_the_sync(patch: Patch) -> None:
    def advance(partition: Partition, log: Log, now_ms: int) -> None:
        if log.end_offset - log.durability.recovery_point >= log.config.flush_messages:
            partition._request_flush(partition)
        partition.written = log.end_offset
        partition._written_acks.passed(log.end_offset)
        partition._move_high_watermark(log, log.end_offset)

    patch.setattr(Partition, "_advance", advance)


def sync_nothing(patch: Patch) -> None:
    begin_flush = Log.begin_flush

    def begin(log: Log, *args: Any, **options: Any) -> FlushJob:
        job = begin_flush(log, *args, **options)
        object.__setattr__(job, "run", lambda: None)
        return job

    patch.setattr(Log, "begin_flush", begin)


def forget_what_producers_sent(patch: Patch) -> None:
    patch.setattr(Producers, "find_duplicate", lambda producers, header: None)
    patch.setattr(Producers, "check", lambda *_: None)


def answer_retries_with_an_error(patch: Patch) -> None:
    patch.setattr(Producers, "find_duplicate", lambda producers, header: None)


def recover_without_the_checksum(patch: Patch) -> None:
    patch.setattr(recovery, "check_crc", lambda *_: None)


def forget_producers_at_a_start(patch: Patch) -> None:
    def opened(*args: Any, **options: Any) -> Log:
        log = recovery.open_log(*args, **options)
        log.producers.by_id.clear()
        return log

    patch.setattr(directory, "open_log", opened)


def read_past_the_high_watermark(patch: Patch) -> None:
    patch.setattr(fetch_read.FetchRead, "_max_offset", lambda read, log: log.end_offset)


def drop_what_was_not_synced(patch: Patch) -> None:
    """At every start, also where only the process was killed."""

    def opened(*args: Any, **options: Any) -> Log:
        log = recovery.open_log(*args, **options)
        log.truncate_to(log.durability.recovery_point, options["now_ms"])
        return log

    patch.setattr(directory, "open_log", opened)


def forget_deletions(patch: Patch) -> None:
    async def is_durable(*_: Any) -> bool:
        return True

    patch.setattr(delete_records, "_is_durable", is_durable)
    patch.setattr(Background, "_checkpoint_starts", lambda background: asyncio.sleep(0))


def delete_too_early(patch: Patch) -> None:
    deleting = retention._deleting_by_age
    patch.setattr(retention, "_deleting_by_age", lambda log, now_ms: deleting(log, now_ms + 3_000))


def compact_the_last_of_a_key_away(patch: Patch) -> None:
    class Wrong:
        def __init__(self, *args: Any, **options: Any) -> None:
            self._offsets = OffsetMap(*args, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._offsets, name)

        def retain(self, *args: Any) -> tuple[bytearray, int]:
            retained, keyless = self._offsets.retain(*args)
            retained[-1] = 0
            return retained, keyless

    patch.setattr(compaction, "OffsetMap", Wrong)


def answer_a_duplicate_with_the_next_offset(patch: Patch) -> None:
    append = Log.append_as_leader

    def appended(log: Log, *args: Any, **options: Any) -> Any:
        result = append(log, *args, **options)
        if result.is_duplicate:
            return result._replace(first_offset=result.first_offset + 1, last_offset=result.last_offset + 1)
        return result

    patch.setattr(Log, "append_as_leader", appended)


def tell_a_high_watermark_that_is_ahead(patch: Patch) -> None:
    read = fetch_read.FetchRead._read

    def ahead(self: Any, *args: Any) -> Any:
        answer = read(self, *args)
        answer.high_watermark += 1
        return answer

    patch.setattr(fetch_read.FetchRead, "_read", ahead)


MUTANTS: list[Mutant] = [
    acknowledge_before_the_sync,
    sync_nothing,
    forget_what_producers_sent,
    answer_retries_with_an_error,
    recover_without_the_checksum,
    read_past_the_high_watermark,
    forget_producers_at_a_start,
    drop_what_was_not_synced,
    forget_deletions,
    delete_too_early,
    compact_the_last_of_a_key_away,
    answer_a_duplicate_with_the_next_offset,
    tell_a_high_watermark_that_is_ahead,
]
