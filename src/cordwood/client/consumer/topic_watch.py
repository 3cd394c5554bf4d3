"""A consumer's topic metadata: refreshed when new topics are read, when leaders move, and periodically."""

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
# A topic that brokers create on request exists one or two requests later.
_UNKNOWN_TIMES = 3


class TopicWatch:
    """`wanted` names the topics, None for all. `changed` is called after each response."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        wanted: Callable[[], Collection[str] | None],
        changed: Callable[[], None],
        partitions: Callable[[], Iterable[TopicPartition]],
    ) -> None:
        """`partitions` are those being read."""
        self.error: ClientError | None = None
        """An error for the application: a topic that it may not read, or with an invalid name."""
        self._client = client
        self._settings = settings
        self._wanted = wanted
        self._changed = changed
        self._partitions = partitions
        # Number of consecutive responses in which each topic was missing, and partitions for which that was logged.
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
        """The set of topics has changed: the request in flight does not cover it, and there is no reason for
        back-off."""
        self._in_vain = 0
        if self._asking is None:
            self.ask_soon()
        else:
            self._again = True

    def calm(self) -> None:
        """Records arrive: the next refresh needs no back-off, except for missing topics."""
        if self._asking is None:
            self._in_vain = 0

    async def ask(self) -> None:
        """Waits for the response to a request sent from now on, or for its failure."""
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
                # Missing, or without a leader for now.
                _log.debug("%s", error)
                self._again = True
            else:
                self.error = error

    def _warn_of_missing(self, unknown: Collection[str], wanted: Collection[str] | None) -> None:
        """Warns once per topic: a mistyped name would look like a topic without records."""
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
            # Report a bug, instead of a hanging consumer.
            task.result()
