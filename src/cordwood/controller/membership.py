"""The brokers of the cluster while this controller is active: registrations and heartbeats, and the fencing of brokers
whose sessions end.

Each method is a decision, or part of one: the shell calls them one at a time, with the image that holds everything
decided before. `BrokerSessions` has the rules about time, `metadata.controller.brokers` those about the metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from cordwood.metadata.controller import brokers
from cordwood.metadata.controller.brokers import Contact
from cordwood.metadata.controller.decision import ControllerDefaults
from cordwood.metadata.image import MetadataImage
from cordwood.runtime.clock import Clock
from cordwood.shard.decision import Decision
from cordwood.shard.timers import Timers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from cordwood.wire.schema import MetadataRecord

from .counts import ControllerCounts
from .sessions import BrokerSessions, Expired, Expiry

_log = logging.getLogger(__name__)

_TIMER = "broker sessions"
# A timer this late shows that this process was suspended.
_LATE_MS = 250


class SessionSettings(NamedTuple):
    timeout_ms: int  # broker.session.timeout.ms
    reconnect_grace_ms: int  # cordwood.broker.reconnect.grace.ms


class Membership:
    """`timers` are those of the controller's shard, which runs an expired one as a decision."""

    def __init__(
        self,
        image: MetadataImage,
        settings: SessionSettings,
        defaults: Callable[[], ControllerDefaults],
        timers: Timers,
        clock: Clock,
        counts: ControllerCounts,
    ) -> None:
        self.sessions = BrokerSessions(settings.timeout_ms, settings.reconnect_grace_ms)
        self._settings = settings
        self._defaults = defaults
        self._timers = timers
        self._clock = clock
        self._counts = counts
        self._timer_at_ms: float | None = None
        for broker in image.brokers.values():
            if not broker.fenced:
                self.sessions.begin(broker.id, broker.epoch, self._now_ms)
                if broker.in_controlled_shutdown:
                    self.sessions.shutting_down(broker.id, image.covers.offset - 1)
        self._set_timer()

    @property
    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000

    # Requests

    def register(
        self, image: MetadataImage, request: BrokerRegistrationRequest, *, cluster_id: str, next_offset: int
    ) -> Decision[BrokerRegistrationResponse]:
        decision = brokers.register_broker(
            image,
            request,
            self._defaults(),
            cluster_id=cluster_id,
            next_offset=next_offset,
            old_incarnation=self._contact(image, request.broker_id),
        )
        response = decision.response
        assert isinstance(response, BrokerRegistrationResponse)
        existing = image.brokers.get(request.broker_id)
        if response.error_code == ErrorCode.NONE and (existing is None or existing.epoch != response.broker_epoch):
            self.sessions.begin(request.broker_id, response.broker_epoch, self._now_ms)
            self._set_timer()
        return decision

    def _contact(self, image: MetadataImage, broker_id: int) -> Contact:
        existing = image.brokers.get(broker_id)
        return Contact.NONE if existing is None else self.sessions.contact(broker_id, existing.epoch)

    def heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, connection_id: int | None, next_offset: int
    ) -> Decision[BrokerHeartbeatResponse]:
        """`connection_id` is that of the connection over which the heartbeat came, None for a broker in this process;
        `next_offset` is the offset of the decision's first record."""
        broker_id = request.broker_id
        others = [other.id for other in image.brokers.values() if other.is_active and other.id != broker_id]
        decision = brokers.broker_heartbeat(
            image,
            request,
            self._defaults(),
            others_caught_up=self.sessions.have_caught_up(others, broker_id),
        )
        response = decision.response
        assert isinstance(response, BrokerHeartbeatResponse)
        if response.error_code != ErrorCode.NONE:
            return decision
        if response.should_shut_down:
            # It says nothing after that, and its next incarnation need not wait.
            self.sessions.end(broker_id)
        else:
            self.sessions.heard(
                broker_id, request.broker_epoch, request.current_metadata_offset, connection_id, self._now_ms
            )
            if request.want_shut_down:
                self.sessions.shutting_down(broker_id, next_offset + len(decision.records) - 1)
        self._set_timer()
        return decision

    def disconnected(self, broker_id: int, connection_id: int) -> Decision[None]:
        """A connection is closed over which the broker sent heartbeats."""
        self.sessions.disconnected(broker_id, connection_id, self._now_ms)
        self._set_timer()
        return Decision(None)

    def refused(self, broker_id: int, broker_epoch: int) -> Decision[None]:
        """The broker's listener refuses connections."""
        self.sessions.refused(broker_id, broker_epoch, self._now_ms)
        self._set_timer()
        return Decision(None)

    def unregister(self, image: MetadataImage, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
        decision = brokers.unregister_broker(image, request, self._defaults())
        if decision.records:
            self.sessions.end(request.broker_id)
        return decision

    # Time

    def _set_timer(self) -> None:
        at_ms = self.sessions.next_end_ms
        # A timer that fires too early is set again: heartbeats constantly postpone the deadline.
        if at_ms is not None and (self._timer_at_ms is None or at_ms < self._timer_at_ms):
            self._timer_at_ms = at_ms
            self._timers.after(_TIMER, max(0.0, at_ms - self._now_ms), self._time_has_come)

    def _time_has_come(self, state: Any) -> Decision[None]:
        now_ms = self._now_ms
        if self._timer_at_ms is not None and now_ms - self._timer_at_ms > _LATE_MS:
            self.sessions.forgive(now_ms - self._timer_at_ms)
        self._timer_at_ms = None
        expired = self.sessions.expired(now_ms)
        records = self._fence(state.image, expired[0]) if expired else []
        # The next one at once: it has to see that this one is fenced.
        self._set_timer()
        return Decision(None, records)

    def _fence(self, image: MetadataImage, expired: Expired) -> list[MetadataRecord]:
        """One decision fences the broker and gives all of its partitions to others."""
        self.sessions.end(expired.broker_id)
        broker = image.brokers.get(expired.broker_id)
        if broker is None or broker.epoch != expired.broker_epoch or broker.fenced:
            return []
        self._counts.timed_out_brokers += 1
        _log.info("Fencing broker %d, epoch %d: %s", broker.id, broker.epoch, self._reason(expired.why))
        return brokers.fence_broker(image, self._defaults(), broker.id)

    def _reason(self, why: Expiry) -> str:
        if why is Expiry.REFUSED:
            return "the connection of its heartbeats closed, and its listener refuses connections"
        if why is Expiry.DISCONNECTED:
            grace_ms = self._settings.reconnect_grace_ms
            return (
                "the connection of its heartbeats closed, and it did not come back within "
                f"{grace_ms} ms (cordwood.broker.reconnect.grace.ms)"
            )
        return f"no heartbeat for {self._settings.timeout_ms} ms (broker.session.timeout.ms)"
