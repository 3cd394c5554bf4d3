"""The producer's sending task: waits until a batch is due, drains it and sends it to its leader.

The sender decides; this module handles connections, metadata and time.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError, ClientError
from cordwood.client.producer.accumulator import Accumulator, Readiness
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.sending.lanes import Lane
from cordwood.client.producer.sending.sender import Attempt, Sender, leaders_of
from cordwood.client.producer.settings import ProducerSettings
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import ProduceResponse

_log = logging.getLogger(__name__)

_NO_TRANSACTION_TIMEOUT_MS = 0x7FFF_FFFF


class SendingLoop:
    """`run` is its task; call `wake` after any change. `on_progress` is called after each response."""

    def __init__(
        self,
        client: Client,
        sender: Sender,
        accumulator: Accumulator,
        settings: ProducerSettings,
        *,
        lock: AbstractContextManager[Any],
        on_progress: Callable[[], None],
    ) -> None:
        self._client = client
        self._sender = sender
        self._accumulator = accumulator
        self._settings = settings
        self._lock = lock
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        # While awake it re-examines everything before it sleeps.
        self._is_asleep = False
        self._lanes: dict[int, Lane] = {}
        self._connections: dict[Attempt, BrokerConnection] = {}
        self._identifying: asyncio.Task[None] | None = None
        self._identity_refused = False
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshes = 0
        self._broken: Exception | None = None

    def wake(self) -> None:
        """Called in the loop's thread."""
        self._is_asleep = False
        self._woken.set()

    def take_sleep(self) -> bool:
        """Returns whether the loop has to be woken. Called with the lock held, in any thread; a caller that gets True
        must wake it."""
        was_asleep, self._is_asleep = self._is_asleep, False
        return was_asleep

    async def run(self) -> None:
        """Runs until it is cancelled; the canceller handles requests in flight."""
        try:
            while True:
                self._woken.clear()
                if self._broken is not None:
                    raise self._broken
                now_s = self._loop.time()
                self._cut_overdue(now_s)
                self._sender.tick(now_s)
                self._want_identity()
                next_check_s = self._send_due()
                # A batch may have expired.
                self._on_progress()
                await self._sleep(min(next_check_s, self._sender.next_tick_s()))
        finally:
            for lane in self._lanes.values():
                lane.close()
            tasks = [task for task in (self._identifying, self._refreshing) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sleep(self, until_s: float) -> None:
        pause_s = until_s - self._loop.time()
        if pause_s <= 0:
            # A batch became due in the meantime; yield to other tasks first.
            await asyncio.sleep(0)
            return
        timer = self._loop.call_later(pause_s, self._woken.set) if pause_s != float("inf") else None
        await self._woken.wait()
        if timer is not None:
            timer.cancel()

    # ---- sending

    def _send_due(self) -> float:
        """Sends until nothing more is due, or until due batches cannot be sent now: then a response or a connection
        wakes the task. Returns when to look again."""
        while True:
            readiness = self._readiness()
            self._want_metadata(readiness.leaderless)
            has_sent = False
            for broker in sorted(readiness.leaders):
                lane = self._lane(broker)
                connection = lane.fit_connection()
                if connection is None:
                    continue
                attempt = self._sender.drain(broker, self._client.cluster, self._loop.time())
                if attempt is not None:
                    has_sent = True
                    self._send(attempt, lane, connection)
            if not has_sent:
                return readiness.next_check_s

    def _readiness(self) -> Readiness:
        leader_of = leaders_of(self._client.cluster)
        with self._lock:
            readiness = self._accumulator.ready(leader_of, self._loop.time(), self._sender.may_send)
            # With the lock held: batches appended from now on were not seen.
            self._is_asleep = True
        return readiness

    def _send(self, attempt: Attempt, lane: Lane, connection: BrokerConnection) -> None:
        if self._settings.acks == 0:
            outcome = None
            try:
                connection.start_only(attempt.request, at_most=attempt.at_most)
            except ClientError as error:
                outcome = error
            self._finish(attempt, outcome)
            return

        def on_answer(outcome: ProduceResponse | ClientError) -> None:
            lane.in_flight -= 1
            del self._connections[attempt]
            try:
                self._finish(attempt, outcome)
            except Exception as error:  # noqa: BLE001  # a mistake of ours: this task is not awaited, so `run` fails with it
                self._broken = error
            self.wake()

        try:
            connection.start(attempt.request, on_answer, at_most=attempt.at_most)
        except ClientError as error:
            self._finish(attempt, error)
            return
        lane.in_flight += 1
        self._connections[attempt] = connection

    def _finish(self, attempt: Attempt, outcome: ProduceResponse | ClientError | None) -> None:
        news = self._sender.finish(attempt, outcome, self._loop.time())
        if news is not None:
            self._client.cluster = self._client.cluster.led_by(news.leaders, news.brokers)
        self._on_progress()

    def _cut_overdue(self, now_s: float) -> None:
        """Closes connections with overdue responses, as Kafka's clients do: responses come in order, so all others
        would wait, too."""
        for attempt in self._sender.overdue(now_s):
            connection = self._connections[attempt]
            if not connection.is_lost:
                _log.warning(
                    "Broker %d did not respond within %d ms (request_timeout_ms); retrying",
                    attempt.broker,
                    self._settings.request_timeout_ms,
                )
                connection.abort()

    def _lane(self, broker: int) -> Lane:
        lane = self._lanes.get(broker)
        if lane is None:
            max_in_flight = self._settings.max_in_flight_requests_per_connection
            lane = self._lanes[broker] = Lane(self._client, broker, max_in_flight, self._lane_changed)
        return lane

    def _lane_changed(self, error: ClientError | None) -> None:
        if error is not None:
            _log.info("Cannot send, retrying: %s", error)
            # Another broker may lead by now.
            self._sender.wants_metadata = True
        self.wake()

    # ---- identity and metadata

    def _want_identity(self) -> None:
        """Requests an identity, without which nothing can be sent. After a refusal it is requested again only for
        callers that still send."""
        if self._sender.wants_identity and self._identifying is None:
            with self._lock:
                is_wanted = not self._identity_refused or bool(self._accumulator.waiting())
            if is_wanted:
                self._identifying = self._loop.create_task(self._identify())

    async def _identify(self) -> None:
        self._identity_refused = False
        failures = 0
        try:
            while self._sender.wants_identity:
                try:
                    self._sender.identified(await self._ask_identity())
                except ClientError as error:
                    _log.warning("Cannot get a producer id, retrying: %s", error)
                    if not error.retriable:
                        self._identity_refused = True
                        self._sender.fail_unsent(error, self._loop.time())
                        self._on_progress()
                        return
                    failures += 1
                    await self._client.pause_after(failures)
        finally:
            self._identifying = None
            self.wake()

    async def _ask_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
        response = await (await self._client.any_broker()).ask(request)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code, subject="the producer's id")
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    def _want_metadata(self, leaderless: frozenset[str]) -> None:
        if self._refreshing is None:
            if leaderless or self._sender.wants_metadata:
                self._sender.wants_metadata = False
                self._refreshes += 1
                self._refreshing = self._loop.create_task(self._refresh(leaderless))
            else:
                self._refreshes = 0

    async def _refresh(self, leaderless: frozenset[str]) -> None:
        """Refreshes once, then backs off for longer each time it is needed again."""
        try:
            forgotten = sorted(leaderless - set(self._client.cluster.topics))
            if forgotten:
                # Don't ask for a missing topic along with the others any more; it may come back.
                await self._client.topics(forgotten)
            await self._client.refresh()
        except ClientError as error:
            _log.info("Cannot refresh metadata, retrying: %s", error)
        try:
            self.wake()
            await self._client.pause_after(self._refreshes)
        finally:
            self._refreshing = None
            self.wake()
