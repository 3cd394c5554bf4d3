"""Ways to break a node. The checks have to find each."""

from collections.abc import Callable
from typing import Any

import pytest

from cordwood.broker import fetch_read
from cordwood.broker.controller import Controller
from cordwood.log import recovery
from cordwood.log.log import FlushJob, Log
from cordwood.log.producers import Producers
from cordwood.replica.partition import Partition
from cordwood.wire.errors import ErrorCode

Patch = pytest.MonkeyPatch


def acknowledge_before_the_sync(patch: Patch) -> None:
    def advance(partition: Partition) -> None:
        log = partition.log
        assert log is not None
        if log.end_offset - log.recovery_point >= log.config.flush_messages:
            partition._request_flush(partition)
        log.advance_high_watermark(log.end_offset)
        while partition._acknowledgements:
            partition._acknowledgements.popleft()[1](ErrorCode.NONE)
        partition._wake()

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


def forget_producers_at_recovery(patch: Patch) -> None:
    patch.setattr(Producers, "apply", _only_when(Producers.apply, lambda producers: not producers.is_recovering))
    patch.setattr(Producers, "is_recovering", property(_is_recovering), raising=False)


def read_past_the_high_watermark(patch: Patch) -> None:
    patch.setattr(fetch_read.FetchRead, "_max_offset", lambda read, log: log.end_offset)


def start_behind_the_recovery_point(patch: Patch) -> None:
    """Takes what was not synced for lost, though only the process was killed."""
    open_log = recovery.open_log

    def opened(*args: Any, **options: Any) -> Log:
        log = open_log(*args, **options)
        log.truncate(log.recovery_point, options["now_ms"])
        return log

    patch.setattr(recovery, "open_log", opened)


def publish_before_the_commit(patch: Patch) -> None:
    write = Controller._write

    def write_and_publish(controller: Controller, decided: Any) -> None:
        write(controller, decided)
        while controller._unpublished:
            delta, image = controller._unpublished.popleft()
            controller.committed = image
            controller._publish(delta, image)

    patch.setattr(Controller, "_write", write_and_publish)


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


MUTANTS: list[Callable[[Patch], None]] = [
    acknowledge_before_the_sync,
    sync_nothing,
    forget_what_producers_sent,
    answer_retries_with_an_error,
    recover_without_the_checksum,
    read_past_the_high_watermark,
    publish_before_the_commit,
    answer_a_duplicate_with_the_next_offset,
    tell_a_high_watermark_that_is_ahead,
]


def _only_when(method: Any, condition: Callable[[Any], bool]) -> Any:
    def wrapped(self: Any, *args: Any) -> Any:
        return method(self, *args) if condition(self) else None

    return wrapped


def _is_recovering(producers: Any) -> bool:
    return False
