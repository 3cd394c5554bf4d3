"""A consumer's topic metadata: refreshed when it starts to read topics, when leaders move, and periodically."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# One that brokers create because it is asked for is there the next time, or the one after that.
_UNKNOWN_TIMES = 3


class TopicWatch:
    """`wanted` names the topics, None for all. `changed` is called after each answer."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        wanted: Callable[[], Collection[str] | None],
        changed: Callable[[], None],
        partitions: Callable[[], Iterable[TopicPartition]],
    ) -> None:
        """`partitions` are those that are read."""
        self.error: ClientError | None = None
        """For the application: a topic that it may not read, or that cannot be."""
        self._client = client
        self._settings = settings
        self._wanted = wanted
        self._changed = changed
        self._partitions = partitions
        # How often in a row each topic was not there, and of which partitions that was told.
        self._unknown: dict[str, int] = {}
        self._told: set[TopicPartition] = set()
        self._loop = asyncio.get_running_loop()
        self._asking: asyncio.Task[None] | None = None
        self._again = False
        self._later: asyncio.TimerHandle | None = None
        self._in_vain = 0
        self._is_closed = False

    def ask_soon(self) -> None:
        """Requests fresh metadata; callers while it is in flight share it."""
        if self._asking is None and not self._is_closed:
            if self._later is not None:
                self._later.cancel()
            self._asking = self._loop.create_task(self._ask())
            self._asking.add_done_callback(self._asked)

    def wanted_changed(self) -> None:
        """Other topics than before: what is on its way does not tell of them, and there is no reason to pause."""
        self._in_vain = 0
        if self._asking is None:
            self.ask_soon()
        else:
            self._again = True

    def calm(self) -> None:
        """Records arrive: the next one to ask need not wait. What is being asked for in vain is not among them."""
        if self._asking is None:
            self._in_vain = 0

    async def ask(self) -> None:
        """Waits for an answer to a question that is put from now on, or for the failure to get one."""
        if self._asking is not None:
            await asyncio.wait([self._asking])
        self._in_vain = 0
        self.ask_soon()
        if self._asking is not None:
            await asyncio.wait([self._asking])

    def take_error(self) -> ClientError | None:
        error, self.error = self.error, None
        return error

    async def close(self) -> None:
        self._is_closed = True
        if self._later is not None:
            self._later.cancel()
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        if self._in_vain:
            await self._client.pause_after(self._in_vain)
        self._in_vain += 1
        wanted = self._wanted()
        try:
            errors = await self._client.ask_for_topics(
                wanted, create=wanted is not None and self._settings.allow_auto_create_topics
            )
        except ClientError as error:
            if not error.retriable:
                self.error = error
            else:
                _log.debug("Cannot fetch metadata, retrying: %s", error)
                self._again = True
        else:
            self._judge(errors)
        self._changed()

    def _judge(self, errors: dict[str, BrokerError]) -> None:
        wanted = self._wanted()
        self._warn_of_missing({name for name, error in errors.items() if error.code in _UNKNOWN}, wanted)
        for name, error in errors.items():
            if wanted is None or name not in wanted:
                continue
            if error.retriable:
                # Not there yet, or between two leaders.
                _log.debug("%s", error)
                self._again = True
            else:
                self.error = error

    def _warn_of_missing(self, unknown: Collection[str], wanted: Collection[str] | None) -> None:
        """Once for each: a name that is mistyped would look like a topic without records."""
        self._unknown = {name: self._unknown.get(name, 0) + 1 for name in sorted(unknown) if name in (wanted or ())}
        for name, times in self._unknown.items():
            if times == _UNKNOWN_TIMES:
                _log.warning("Topic %s does not exist yet; consuming starts once it is created", name)
        topics = self._client.cluster.topics
        missing = {
            partition
            for partition in self._partitions()
            if (topic := topics.get(partition.topic)) is not None and partition.partition >= len(topic.partitions)
        }
        for partition in sorted(missing - self._told):
            count = len(topics[partition.topic].partitions)
            _log.warning("Partition %s does not exist yet: the topic has %d partitions", partition, count)
        self._told = missing

    def _asked(self, task: "asyncio.Task[None]") -> None:
        self._asking = None
        if self._is_closed:
            return
        if self._again:
            self._again = False
            self.ask_soon()
        else:
            self._later = self._loop.call_later(self._settings.metadata_max_age_ms / 1000, self.ask_soon)
        if not task.cancelled():
            # A bug is to be seen, not to be a consumer that hangs.
            task.result()
