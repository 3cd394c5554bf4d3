"""`cordwood consume --group`: reads topics as a member of a group and commits its position."""

import re
from collections.abc import Sequence
from fnmatch import translate

from cordwood.cli.terminal.output import print_bytes
from cordwood.cli.topics.topic_choice import is_pattern
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.record_text import RecordText

# After this long without records, check whether the end is reached.
_QUIET_MS = 200


async def print_as_member(
    topics: Sequence[str], settings: ConsumerSettings, text: RecordText, *, count: int | None, follow: bool
) -> None:
    """Prints records and commits them with the next poll, and at the end, even on errors."""
    async with Consumer(settings=settings, network=SocketNetwork()) as consumer:
        if any(map(is_pattern, topics)):
            consumer.subscribe(pattern=re.compile("|".join(map(translate, topics))))
        else:
            consumer.subscribe(topics)
        left = count
        while left is None or left > 0:
            rendered = await consumer.render(text, timeout_ms=_QUIET_MS, max_records=left)
            if rendered is None:
                if not follow and await _is_at_its_end(consumer):
                    return
                continue
            try:
                print_bytes(text.take())
            except BaseException:
                # These were not printed, so they must not be committed.
                consumer.seek(rendered.partition, rendered.first_offset)
                raise
            if left is not None:
                left -= rendered.record_count


async def _is_at_its_end(consumer: Consumer) -> bool:
    """True if everything in the assigned partitions is read; a member without any waits."""
    assigned = consumer.assignment()
    if not assigned:
        return False
    ends = await consumer.end_offsets(assigned)
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])
