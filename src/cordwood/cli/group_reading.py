"""`cordwood consume --group`: reading a topic as a member of a group, which remembers how far it has come."""

from cordwood.cli.output import print_bytes
from cordwood.cli.record_format import Formatter
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.runtime.sockets import SocketNetwork

# Without records for so long, it is looked whether there can be any.
_QUIET_MS = 200


async def print_as_member(
    topic: str, settings: ConsumerSettings, formatter: Formatter, *, count: int | None, follow: bool
) -> None:
    """What is printed is committed: within the next reading, and when it ends, in whatever way."""
    async with Consumer(topic, settings=settings, network=SocketNetwork()) as consumer:
        left = count
        while left is None or left > 0:
            most = settings.max_poll_records if left is None else min(left, settings.max_poll_records)
            records = await consumer.getmany(timeout_ms=_QUIET_MS, max_records=most)
            if not records and not follow and await _is_at_its_end(consumer):
                return
            try:
                for some in records.values():
                    print_bytes(map(formatter, some))
            except BaseException:
                # Nobody has seen them: they are not to be committed.
                for partition, some in records.items():
                    consumer.seek(partition, some[0].offset)
                raise
            if left is not None:
                left -= sum(len(some) for some in records.values())


async def _is_at_its_end(consumer: Consumer) -> bool:
    """Whether it has read all there is in the partitions that it was given; one without any waits for some."""
    assigned = consumer.assignment()
    if not assigned:
        return False
    ends = await consumer.end_offsets(assigned)
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])
