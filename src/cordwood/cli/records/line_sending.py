"""Sends the lines of `cordwood produce` through the producer."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from cordwood.cli.records.line_records import BadLine, LineOptions, LineParser, record_columns
from cordwood.cli.terminal.lines import LineBlocks, LineTooLong
from cordwood.client.cluster import Topic
from cordwood.client.errors import BadSetting, ClientError, GaveUp, TimedOut
from cordwood.client.producer.bulk import BulkDelivery
from cordwood.client.producer.producer import Producer
from cordwood.runtime.clock import Clock
from cordwood.wire.line_input import LineColumns


class LineSending(ABC):
    """Stops at the first record that is not delivered: every later call raises its error."""

    def __init__(self, producer: Producer, topic: Topic, delimiter: bytes, timeout_s: float) -> None:
        self.line_number = 0
        """The number of the line that was read last."""
        self.delivered = 0
        """Number of acknowledged records (with acks=0: sent)."""
        self.is_settled = False
        """True if `delivered` is exact: nothing is in flight, and nothing failed. Otherwise more may have been
        delivered."""
        self.is_settled = False
        """True if `delivered` is exact: nothing is in flight, and nothing failed. Otherwise more may have been
        delivered."""
        self._producer = producer
        self._topic = topic
        self._delimiter = delimiter
        self._timeout_s = timeout_s
        self._blocks = LineBlocks(delimiter)
        # Records handed to the producer, and whether a cancelled call may have handed over more.
        self._taken = 0
        self._is_cut_short = False
        self._failed: asyncio.Future[ClientError] = asyncio.get_running_loop().create_future()

    async def feed(self, chunk: bytes) -> None:
        """Sends the lines that end in this chunk, waiting for room. Raises `BadSetting` for an invalid line; the lines
        before it are sent."""
        try:
            text = self._blocks.feed(chunk)
        except LineTooLong as error:
            raise BadSetting(f"line {self.line_number + 1}: {error}") from error
        if text:
            self._blocks.put_back(text[await self._send(text, is_last=False) :])
        self._raise_failure()

    async def end_file(self) -> None:
        """Sends the last line, which needs no delimiter."""
        text = self._blocks.end()
        if text:
            await self._send(text, is_last=True)
        self._raise_failure()

    async def flush(self) -> None:
        """Returns when all records are delivered."""
        flushing = asyncio.get_running_loop().create_task(self._producer.flush())
        try:
            waited: list[asyncio.Future[Any]] = [flushing, self._failed]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
            await flushing
            # A call that an invalid line cut short has no delivery to wait for.
            self.delivered, self.is_settled = self._taken, not self._is_cut_short
        finally:
            flushing.cancel()

    @abstractmethod
    async def _send(self, text: bytes, *, is_last: bool) -> int:
        """Sends the whole lines of a text and returns where the rest begins. With `is_last`, the rest is a line too."""

    def _follow(self, delivery: BulkDelivery) -> None:
        delivery.add_done_callback(self._hear)

    def _hear(self, delivery: BulkDelivery) -> None:
        self.delivered += delivery.delivered_count()
        error = delivery.exception()
        if error is not None and not self._failed.done():
            self._failed.set_result(GaveUp(error, self._timeout_s) if isinstance(error, TimedOut) else error)

    def _raise_failure(self) -> None:
        if self._failed.done():
            raise self._failed.result()


class TextSending(LineSending):
    """Takes a line for a value, or for a key and a value. Whole blocks of lines become batches, without an object per
    record."""

    def __init__(
        self,
        producer: Producer,
        topic: Topic,
        delimiter: bytes,
        timeout_s: float,
        options: LineOptions,
        clock: Clock,
    ) -> None:
        super().__init__(producer, topic, delimiter, timeout_s)
        self._options = options
        self._clock = clock

    async def _send(self, text: bytes, *, is_last: bool) -> int:
        options = self._options
        lines = LineColumns(text, self._delimiter, options.key_separator, options.null, is_last)
        if lines.count:
            records = record_columns(options, lines, self._clock.now_ms())
            self._is_cut_short = True
            self._follow(await self._producer.send_columns(self._topic.name, records, options.partition))
            self._is_cut_short = False
            self._taken += lines.count
            self.line_number += lines.count
        if lines.lacks_separator:
            self.line_number += 1
            assert options.key_separator is not None
            separator = options.key_separator.decode(errors="replace")
            raise BadSetting(f"line {self.line_number}: no key separator {separator!r}")
        return lines.end


class JsonSending(LineSending):
    """Parses each line as a record in JSON."""

    def __init__(self, producer: Producer, topic: Topic, delimiter: bytes, timeout_s: float, parse: LineParser) -> None:
        super().__init__(producer, topic, delimiter, timeout_s)
        self._parse = parse

    async def _send(self, text: bytes, *, is_last: bool) -> int:
        *lines, rest = text.split(self._delimiter)
        if is_last and rest:
            lines, rest = [*lines, rest], b""
        try:
            self._follow(await self._producer.send_many(self._records(lines)))
        except BadSetting as error:
            raise BadSetting(f"line {self.line_number}: {error}") from error
        return len(text) - len(rest)

    def _records(self, lines: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        name, partition_count = self._topic.name, len(self._topic.partitions)
        for line in lines:
            self.line_number += 1
            try:
                record = self._parse(line)
            except BadLine as error:
                raise BadSetting(str(error)) from error
            if record.partition is not None and record.partition >= partition_count:
                raise BadSetting(f"topic {name} has no partition {record.partition}; it has 0 to {partition_count - 1}")
            yield name, record.value, record.key, record.partition, record.timestamp, record.headers
            self._taken += 1
