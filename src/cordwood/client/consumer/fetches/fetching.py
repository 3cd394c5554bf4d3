"""Plans fetches by broker, and interprets their responses; sans-IO.

A partition is fetched while it has a position, is not paused, and less than `max_partition_fetch_bytes` of it is
buffered, so that the next response is in flight while the application works. Buffered and in-flight data stays within
`fetch_max_bytes`, except for a first batch beyond the limits, which brokers send whole (KIP-74).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.consumer.fetches.buffers import Buffers
from cordwood.client.consumer.fetches.records import FetchedRecords
from cordwood.client.consumer.fetches.sessions import FetchSession, Wanted
from cordwood.client.consumer.offsets.positions import UNKNOWN, PartitionState, Phase
from cordwood.client.consumer.offsets.reset_strategy import ResetKind, ResetStrategy
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.errors import BrokerError, ClientError, OffsetOutOfRange
from cordwood.net.peers.backoff import Backoff
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from cordwood.wire.primitives import ZERO_UUID

_log = logging.getLogger(__name__)

_BY_NAME_AT_MOST = 12
"""The last version of Fetch that names topics."""
_HURRIED_WAIT_MS = 10
"""The first wait for records while the buffers of other partitions are full."""


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """One request; `Fetching.take` or `Fetching.failed` must follow."""

    broker_id: int
    request: FetchRequest
    at_most_version: int | None
    offsets: Mapping[TopicPartition, int]
    """The position in each partition of the session, whether or not the request repeats it."""
    reserved_bytes: int


@dataclass(slots=True)
class Findings:
    """Results of a response besides records."""

    size_bytes: int = 0
    """Bytes of records buffered by this response."""
    needs_metadata: bool = False
    has_errors: bool = False
    """True if there are errors for the application in the partitions' states."""
    leaders: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """New leaders and their epochs (KIP-951)."""


class Fetching:
    def __init__(
        self, settings: ConsumerSettings, subscription: Subscription, buffers: Buffers, backoff: Backoff
    ) -> None:
        self.hungry_for: frozenset[TopicPartition] = frozenset()
        """The only partition that the application waits for, if any: others may fill the buffers."""
        self._settings = settings
        self._subscription = subscription
        self._buffers = buffers
        self._backoff = backoff
        self._reset_strategy = ResetStrategy.parse(settings.auto_offset_reset)
        self._is_read_committed = settings.isolation_level == "read_committed"
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, FetchOrder] = {}
        self._reserved_bytes = 0
        self._waits_ms: dict[int, int] = {}
        self._cluster: Cluster | None = None

    # ---- requests

    def plan(self, cluster: Cluster, now_s: float) -> tuple[list[FetchOrder], bool]:
        """Returns requests to send now, at most one to each idle broker; and whether fresh metadata is needed."""
        self._observe(cluster)
        wanted: dict[int, dict[TopicPartition, Wanted]] = {}
        crowded: set[int] = set()
        needs_metadata = False
        for partition, state in self._subscription.states.items():
            if state.leader_epoch == UNKNOWN:
                self._observe_leader(cluster, state)
            if not state.is_fetchable(now_s):
                continue
            broker_id = self._source(cluster, state, now_s)
            if broker_id is None:
                needs_metadata = True
            elif broker_id in self._under_way:
                continue
            elif self._buffers.bytes_of(partition) >= self._settings.max_partition_fetch_bytes:
                crowded.add(broker_id)
            else:
                wanted.setdefault(broker_id, {})[partition] = self._wanted(cluster, state)
        orders = []
        for broker_id, partitions in wanted.items():
            order = self._order(broker_id, partitions, is_crowded=broker_id in crowded)
            if order is not None:
                orders.append(order)
        return orders, needs_metadata

    def _observe(self, cluster: Cluster) -> None:
        """A new leader may lack records that were read: validates positions against its log first."""
        if cluster is self._cluster:
            return
        self._cluster = cluster
        for state in self._subscription.states.values():
            self._observe_leader(cluster, state)

    def _observe_leader(self, cluster: Cluster, state: PartitionState) -> None:
        try:
            leader_epoch = cluster.partition(state.partition).leader_epoch
        except BrokerError:
            return
        if state.observe_leader(leader_epoch):
            self._buffers.discard(state.partition)

    def _source(self, cluster: Cluster, state: PartitionState, now_s: float) -> int | None:
        """Returns the nearest replica if the leader has named one, or else the leader."""
        preferred = state.preferred(now_s)
        if preferred is not None and preferred in cluster.brokers:
            return preferred
        try:
            return cluster.leader(state.partition)
        except BrokerError:
            return None

    def _wanted(self, cluster: Cluster, state: PartitionState) -> Wanted:
        topic = cluster.topics.get(state.partition.topic)
        return Wanted(
            topic.id if topic is not None else ZERO_UUID,
            state.fetch_offset,
            state.leader_epoch,
            self._settings.max_partition_fetch_bytes,
        )

    def _order(self, broker_id: int, wanted: Mapping[TopicPartition, Wanted], *, is_crowded: bool) -> FetchOrder | None:
        settings = self._settings
        room = settings.fetch_max_bytes - self._buffers.total_bytes - self._reserved_bytes
        if room < min(settings.max_partition_fetch_bytes, settings.fetch_max_bytes):
            if not self._make_room() and (self._buffers.total_bytes or self._under_way):
                wanted = self._wanted_at_once(wanted)
                if not wanted:
                    return None
            room = max(settings.fetch_max_bytes - self._buffers.total_bytes - self._reserved_bytes, 1)
        session = self._sessions.setdefault(broker_id, FetchSession())
        request = session.request(wanted)
        request.max_wait_ms = self._wait_ms(broker_id, is_crowded)
        request.min_bytes = settings.fetch_min_bytes
        request.max_bytes = room
        request.isolation_level = 1 if self._is_read_committed else 0
        request.rack_id = settings.client_rack
        order = FetchOrder(
            broker_id,
            request,
            None if session.is_by_id else _BY_NAME_AT_MOST,
            {partition: each.fetch_offset for partition, each in wanted.items()},
            min(room, len(wanted) * settings.max_partition_fetch_bytes),
        )
        self._under_way[broker_id] = order
        self._reserved_bytes += order.reserved_bytes
        return order

    def _make_room(self) -> bool:
        """Drops the buffers of paused partitions, which are fetched again later."""
        made = False
        for partition, state in self._subscription.states.items():
            if state.paused and self._buffers.bytes_of(partition):
                self._buffers.discard(partition)
                state.fetch_offset = state.offset
                made = True
        return made

    def _wanted_at_once(self, wanted: Mapping[TopicPartition, Wanted]) -> Mapping[TopicPartition, Wanted]:
        """Returns partitions that the application is blocked on: they get a batch each, beyond the limit."""
        return {
            partition: each
            for partition, each in wanted.items()
            if partition in self.hungry_for and not self._buffers.bytes_of(partition)
        }

    def _wait_ms(self, broker_id: int, is_crowded: bool) -> int:
        """A broker has one request at a time. While it waits for records of these partitions, full ones that may be
        needed in a moment cannot be fetched: so it waits briefly, and longer each time nothing arrives."""
        if not is_crowded:
            self._waits_ms.pop(broker_id, None)
            return self._settings.fetch_max_wait_ms
        wait_ms = self._waits_ms.get(broker_id, _HURRIED_WAIT_MS)
        self._waits_ms[broker_id] = wait_ms * 2
        return min(wait_ms, self._settings.fetch_max_wait_ms)

    # ---- responses

    def take(self, order: FetchOrder, response: FetchResponse, now_s: float) -> Findings:
        self._done(order)
        findings = Findings()
        session = self._sessions[order.broker_id]
        if not session.accept(response):
            findings.needs_metadata = response.error_code in (
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INCONSISTENT_TOPIC_ID,
            )
            if response.error_code not in _SESSION_ERRORS:
                self._rest(order.offsets, now_s)
            return findings
        has_records = False
        unread = set()
        for partition, data in session.answers(response):
            has_records = has_records or bool(data.records)
            if data.error_code != ErrorCode.NONE or data.preferred_read_replica >= 0:
                unread.add(partition)
            state = self._asked_state(order, partition)
            if state is None:
                continue
            if data.error_code == ErrorCode.NONE:
                self._take_data(state, data, now_s, findings)
            else:
                self._take_error(state, data, now_s, findings)
        # If no record exists at all, no response limit can hide any; a quota might.
        if not has_records and not response.throttle_time_ms:
            for partition in order.offsets.keys() - unread:
                state = self._asked_state(order, partition)
                if state is not None:
                    state.found_nothing(read_committed=self._is_read_committed)
        return findings

    def _asked_state(self, order: FetchOrder, partition: TopicPartition) -> PartitionState | None:
        """None if the partition was revoked or repositioned since."""
        state = self._subscription.states.get(partition)
        if state is None or state.phase is not Phase.FETCHING or order.offsets.get(partition) != state.fetch_offset:
            return None
        return state

    def failed(self, order: FetchOrder, error: ClientError | None, now_s: float) -> None:
        """No response came: the broker may be gone, and others may lead. Final errors go to the application."""
        self._done(order)
        self._sessions[order.broker_id].lost()
        for partition in order.offsets:
            state = self._subscription.states.get(partition)
            if state is not None:
                state.forget_preferred()
                if error is not None and not error.retriable:
                    state.fail(error)
        self._rest(order.offsets, now_s)

    def _done(self, order: FetchOrder) -> None:
        del self._under_way[order.broker_id]
        self._reserved_bytes -= order.reserved_bytes

    def _take_data(self, state: PartitionState, data: PartitionData, now_s: float, findings: Findings) -> None:
        state.failures = 0
        state.high_watermark = data.high_watermark if data.high_watermark >= 0 else state.high_watermark
        if data.last_stable_offset >= 0:
            state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.prefer(data.preferred_read_replica, now_s + self._settings.metadata_max_age_ms / 1000)
        if data.records:
            fetched = FetchedRecords(state.partition, data, state.fetch_offset, self._settings)
            state.fetch_offset = fetched.next_offset
            self._buffers.add(fetched)
            self._subscription.move_to_end(state.partition)
            findings.size_bytes += fetched.size

    def _take_error(self, state: PartitionState, data: PartitionData, now_s: float, findings: Findings) -> None:
        error = BrokerError(data.error_code, subject=str(state.partition))
        if data.current_leader.leader_id >= 0:
            findings.leaders[state.partition] = (data.current_leader.leader_id, data.current_leader.leader_epoch)
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state, now_s, findings)
            return
        if error.code in _LEADER_ERRORS or error.is_stale_metadata:
            findings.needs_metadata = True
            state.forget_preferred()
        elif error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
            _log.warning("%s; retrying", error)
        elif error.code == ErrorCode.CORRUPT_MESSAGE or not error.retriable:
            self._fail(state, error, findings)
            return
        self._rest([state.partition], now_s)

    def _out_of_range(self, state: PartitionState, now_s: float, findings: Findings) -> None:
        if state.forget_preferred():
            # A follower may lag behind; its leader knows for sure.
            return
        if self._buffers.bytes_of(state.partition):
            # Buffered records are read first.
            self._rest([state.partition], now_s)
        elif self._reset_strategy.kind is ResetKind.NONE:
            error = OffsetOutOfRange(
                f"{state.partition} does not hold offset {state.fetch_offset}", {state.partition: state.fetch_offset}
            )
            self._fail(state, error, findings)
        else:
            state.reset(self._reset_strategy)

    def _fail(self, state: PartitionState, error: ClientError, findings: Findings) -> None:
        state.fail(error)
        findings.has_errors = True

    def _rest(self, partitions: Iterable[TopicPartition], now_s: float) -> None:
        for partition in partitions:
            state = self._subscription.states.get(partition)
            if state is not None:
                state.rest_until(now_s + self._backoff.pause_s(state.failures + 1))

    def next_try_s(self, now_s: float) -> float | None:
        """The time when a partition in back-off may be fetched again."""
        resting = [state.not_before_s for state in self._subscription.states.values() if state.not_before_s > now_s]
        return min(resting, default=None)


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)
"""Errors fixed by an immediate retry."""

_LEADER_ERRORS = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH})
