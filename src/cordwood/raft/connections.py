"""Requests in flight: at most one per node, with a timeout and a back-off after a failure."""

from dataclasses import dataclass

from cordwood.runtime.randomness import Random

from .identity import Node

NEVER = 1 << 62


@dataclass(slots=True)
class _Connection:
    node: Node
    correlation_id: int | None
    # The end of the request in flight, or of the back-off if there is none.
    deadline_ms: int

    @property
    def is_awaiting(self) -> bool:
        return self.correlation_id is not None


class Connections:
    def __init__(self, bootstrap: list[Node], retry_backoff_ms: int, request_timeout_ms: int, random: Random) -> None:
        self._bootstrap = bootstrap
        self._retry_backoff_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._random = random
        # Nodes that are not in here are ready.
        self._busy: dict[int, _Connection] = {}
        self._last_correlation_id = 0

    def is_ready(self, node_id: int, now: int) -> bool:
        connection = self._busy.get(node_id)
        if connection is not None and now >= connection.deadline_ms:
            del self._busy[node_id]
            connection = None
        return connection is None

    def is_backing_off(self, node_id: int, now: int) -> bool:
        connection = self._busy.get(node_id)
        return connection is not None and not connection.is_awaiting and now < connection.deadline_ms

    def has_timed_out(self, node_id: int, now: int) -> bool:
        connection = self._busy.get(node_id)
        return connection is not None and connection.is_awaiting and now >= connection.deadline_ms

    def deadline(self, node_id: int) -> int:
        """The latest time when the node is ready again."""
        connection = self._busy.get(node_id)
        return connection.deadline_ms if connection is not None else NEVER

    def has_any_under_way(self, now: int) -> bool:
        return any(connection.is_awaiting and now < connection.deadline_ms for connection in self._busy.values())

    def ready_bootstrap_server(self, now: int) -> Node | None:
        """One to ask for the leader, chosen at random; None while any request is in flight."""
        if not self._bootstrap or self.has_any_under_way(now):
            return None
        first = self._random.below(len(self._bootstrap))
        rotated = self._bootstrap[first:] + self._bootstrap[:first]
        return next((node for node in rotated if self.is_ready(node.id, now)), None)

    def bootstrap_deadline(self, now: int) -> int:
        """The time to look for a ready bootstrap server again."""
        pending = [connection for connection in self._busy.values() if connection.deadline_ms > now]
        awaited = [connection.deadline_ms for connection in pending if connection.is_awaiting]
        if awaited:
            return min(awaited)
        return min([connection.deadline_ms for connection in pending], default=now + self._retry_backoff_ms)

    def sent(self, node: Node, now: int) -> int:
        """Notes a request as sent; its correlation id."""
        self._last_correlation_id += 1
        self._busy[node.id] = _Connection(node, self._last_correlation_id, now + self._request_timeout_ms)
        return self._last_correlation_id

    def source(self, correlation_id: int) -> Node | None:
        """The node whose answer this is; None if no answer is expected any more."""
        for connection in self._busy.values():
            if connection.correlation_id == correlation_id:
                return connection.node
        return None

    def answered(self, correlation_id: int, success: bool, now: int, backoff_ms: int | None = None) -> None:
        node = self.source(correlation_id)
        if node is None:
            return
        if success:
            del self._busy[node.id]
        else:
            backoff_ms = self._retry_backoff_ms if backoff_ms is None else backoff_ms
            self._busy[node.id] = _Connection(node, None, now + backoff_ms)

    def reset(self, node_id: int) -> None:
        self._busy.pop(node_id, None)

    def reset_all(self) -> None:
        """Drops all requests: answers to requests of an earlier state are ignored."""
        self._busy.clear()
