"""Timers of a classic group's member: its next heartbeat, the session, and the poll interval."""

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.net.peers.backoff import Backoff


class Liveness:
    def __init__(self, settings: ConsumerSettings, backoff: Backoff) -> None:
        self._interval_s = settings.heartbeat_interval_ms / 1000
        self._session_s = settings.session_timeout_ms / 1000
        self._poll_interval_s = settings.max_poll_interval_ms / 1000
        self._backoff = backoff
        self._failures = 0
        self.next_heartbeat_s = 0.0
        """The time of the next heartbeat, unless one is in flight."""
        self.session_ends_s = 0.0
        """Without a successful heartbeat until then, the coordinator may be gone."""
        self.poll_ends_s = 0.0
        """Without a poll until then, the application is stuck."""

    def restart(self, now_s: float) -> None:
        """The member has joined."""
        self._failures = 0
        self.next_heartbeat_s = now_s + self._interval_s
        self.session_ends_s = now_s + self._session_s
        self.polled(now_s)

    def begin_again(self, now_s: float) -> None:
        """Restarts, possibly with another coordinator."""
        self.session_ends_s = now_s + self._session_s
        self.next_heartbeat_s = now_s

    def polled(self, now_s: float) -> None:
        self.poll_ends_s = now_s + self._poll_interval_s

    def sent(self, now_s: float) -> None:
        self.next_heartbeat_s = now_s + self._interval_s

    def answered(self, now_s: float) -> None:
        self._failures = 0
        self.session_ends_s = now_s + self._session_s

    def failed(self, now_s: float) -> None:
        self._failures += 1
        self.next_heartbeat_s = now_s + self._backoff.pause_s(self._failures)
