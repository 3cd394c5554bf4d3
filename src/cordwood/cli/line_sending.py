"""Lines on their way to a topic: `cordwood produce` reads them, this has the producer send them."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from cordwood.cli.line_records import BadLine, LineParser
from cordwood.client.cluster import Topic
from cordwood.client.errors import BadSetting, ClientError, GaveUp, TimedOut
from cordwood.client.producer.bulk import BulkDelivery
from cordwood.client.producer.producer import Producer


class LineSending:
    """Ends with the first record that is not delivered: every call raises why, then."""

    def __init__(self, producer: Producer, topic: Topic, parse: LineParser, timeout_s: float) -> None:
        self.line_number = 0
        """Of the line that was read last."""
        self.delivered = 0
        """Records that were acknowledged (with acks=0: sent)."""
        self.is_settled = False
        """Whether `delivered` is exact: nothing is on its way, and nothing failed. It may be more otherwise."""
        self._producer = producer
        self._topic = topic
        self._parse = parse
        self._timeout_s = timeout_s
        self._taken = 0
        self._failed: asyncio.Future[ClientError] = asyncio.get_running_loop().create_future()

    async def send(self, lines: Sequence[bytes]) -> None:
        """Takes them, as there is room for them. Raises `BadSetting` for a line that cannot be sent; those before it
        are."""
        try:
            delivery = await self._producer.send_many(self._records(lines))
        except BadSetting as error:
            raise BadSetting(f"line {self.line_number}: {error}") from error
        delivery.add_done_callback(self._hear)
        self._raise_failure()

    async def flush(self) -> None:
        """Returns when all that was taken is delivered."""
        flushing = asyncio.get_running_loop().create_task(self._producer.flush())
        try:
            waited: list[asyncio.Future[Any]] = [flushing, self._failed]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
            await flushing
            # A call of `send` that was cut short has no delivery to hear of.
            self.delivered, self.is_settled = self._taken, True
        finally:
            flushing.cancel()

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

    def _hear(self, delivery: BulkDelivery) -> None:
        error = delivery.exception()
        if error is None:
            self.delivered += delivery.record_count
        elif not self._failed.done():
            self._failed.set_result(GaveUp(error, self._timeout_s) if isinstance(error, TimedOut) else error)

    def _raise_failure(self) -> None:
        if self._failed.done():
            raise self._failed.result()
