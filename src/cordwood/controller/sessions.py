"""The sessions of brokers with the active controller: their last heartbeats, how far each has applied the metadata, and
whether its heartbeat connection is open. No I/O: times are passed in, in milliseconds of a monotonic clock.

A session ends in one of four ways: the broker is silent for `timeout_ms`; the connection of its heartbeats closes and
no heartbeat comes over another one within `grace_ms`; that connection closes and the broker's listener refuses
connections, so its process has died; or the broker announced that it stops. A session is not in the metadata log.
A controller that becomes active gives every unfenced broker a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from cordwood.metadata.controller.brokers import Contact


class Expiry(Enum):
    """Why a session has ended."""

    SILENT = auto()
    DISCONNECTED = auto()
    REFUSED = auto()


class Expired(NamedTuple):
    broker_id: int
    broker_epoch: int
    why: Expiry


@dataclass(slots=True)
class _Session:
    broker_epoch: int
    heard_at_ms: float
    # The last record that the broker had applied by its last heartbeat; -1: it has not said so to this controller.
    metadata_offset: int = -1
    # The connection of its last heartbeat: None for a broker in this process, and before the first heartbeat.
    connection_id: int | None = None
    is_local: bool = False
    # The time when that connection was lost; None if it is open.
    lost_at_ms: float | None = None
    # When the broker's listener refused a connection after that; None: it did not.
    refused_at_ms: float | None = None
    # In a controlled shutdown: the record from which on it leads nothing.
    shutdown_offset: int | None = None

    def ends_at_ms(self, timeout_ms: int, grace_ms: int) -> tuple[float, Expiry]:
        if self.refused_at_ms is not None:
            return self.refused_at_ms, Expiry.REFUSED
        silent_at_ms = self.heard_at_ms + timeout_ms
        if self.lost_at_ms is not None and self.lost_at_ms + grace_ms < silent_at_ms:
            return self.lost_at_ms + grace_ms, Expiry.DISCONNECTED
        return silent_at_ms, Expiry.SILENT


class BrokerSessions:
    def __init__(self, timeout_ms: int, grace_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms
        self._sessions: dict[int, _Session] = {}

    # Events

    def begin(self, broker_id: int, broker_epoch: int, now_ms: float) -> None:
        """An incarnation has registered, or is known from the log. Takes the place of the broker's session so far."""
        self._sessions[broker_id] = _Session(broker_epoch, now_ms)

    def heard(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, connection_id: int | None, now_ms: float
    ) -> None:
        """A heartbeat came over a connection; `connection_id` is None for a broker in this process."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = _Session(broker_epoch, now_ms)
        session.heard_at_ms = now_ms
        session.metadata_offset = metadata_offset
        if connection_id is None or connection_id != session.connection_id:
            session.connection_id = connection_id
            session.is_local = connection_id is None
            session.lost_at_ms = session.refused_at_ms = None

    def disconnected(self, broker_id: int, connection_id: int, now_ms: float) -> None:
        """The connection was closed. It matters only if the broker's last heartbeat came over it."""
        session = self._sessions.get(broker_id)
        if session is not None and session.connection_id == connection_id and session.lost_at_ms is None:
            session.lost_at_ms = now_ms

    def refused(self, broker_id: int, broker_epoch: int, now_ms: float) -> None:
        """The broker's listener refuses connections. That matters only if the broker has no heartbeat connection.

        A broker that had one has died: its session ends. A broker that has never connected to this controller has the
        grace, since perhaps only other nodes can reach it.
        """
        if self.contact(broker_id, broker_epoch) is not Contact.OUT_OF_TOUCH:
            return
        session = self._sessions[broker_id]
        if session.lost_at_ms is None:
            session.lost_at_ms = now_ms
        elif session.connection_id is not None and session.refused_at_ms is None:
            session.refused_at_ms = now_ms

    def shutting_down(self, broker_id: int, offset: int) -> None:
        """The broker leads nothing any more once `offset` is applied."""
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset is None:
            session.shutdown_offset = offset

    def end(self, broker_id: int) -> None:
        """The broker was fenced, unregistered, or said that it stops."""
        self._sessions.pop(broker_id, None)

    def forgive(self, late_ms: float) -> None:
        """Extends all sessions by the time for which the controller itself was suspended and could receive no
        heartbeats."""
        for session in self._sessions.values():
            session.heard_at_ms += late_ms
            if session.lost_at_ms is not None:
                session.lost_at_ms += late_ms

    # Consequences

    def contact(self, broker_id: int, broker_epoch: int) -> Contact:
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            return Contact.NONE
        is_connected = session.is_local or (session.connection_id is not None and session.lost_at_ms is None)
        return Contact.CONNECTED if is_connected else Contact.OUT_OF_TOUCH

    def have_caught_up(self, others: Iterable[int], broker_id: int) -> bool:
        """Returns whether `others` have all applied that the broker, in a controlled shutdown, no longer leads
        anything."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_offset is None:
            return False
        return all(self._offset_of(other) >= session.shutdown_offset for other in others)

    def _offset_of(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.metadata_offset

    @property
    def next_end_ms(self) -> float | None:
        """The time when the next session ends without a heartbeat; None without any session."""
        return min(
            (session.ends_at_ms(self._timeout_ms, self._grace_ms)[0] for session in self._sessions.values()),
            default=None,
        )

    def expired(self, now_ms: float) -> list[Expired]:
        """The expired sessions, earliest first. They stay until `end` is called."""
        ends = []
        for broker_id, session in self._sessions.items():
            at_ms, why = session.ends_at_ms(self._timeout_ms, self._grace_ms)
            if at_ms <= now_ms:
                ends.append((at_ms, Expired(broker_id, session.broker_epoch, why)))
        return [expired for _, expired in sorted(ends, key=lambda end: end[:1])]
