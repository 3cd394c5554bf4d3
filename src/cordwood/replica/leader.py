"""A partition's leader, sans-IO: the progress of its followers, the in-sync set, and the high watermark.

    leader = Leader(broker_id, state, settings, log_end_offset, high_watermark, now_ms)
    for effect in leader.step(FollowerFetched(…), now_ms):
        …

A follower's fetch offset is its acknowledgement: it has everything below that offset. The high watermark is the
smallest end offset of the replicas that count: the members of the in-sync set (ISR), a follower whose join the
controller has not committed yet, and a follower that is caught up and may join. It never moves back, and it stops while
the ISR is below `min.insync.replicas` (KIP-966).

The ISR changes through the controller only (KIP-497): the leader proposes one change at a time, and keeps counting by
the larger of the two sets until the metadata shows the outcome. The controller's answer does not: it may be ahead of
the metadata that this broker has applied. The controller keeps a replica that has left the ISR eligible to lead while
the ISR is below `min.insync.replicas`, so a leader that counted by a new ISR and an older minimum could commit what
that replica lacks (KIP-966).
"""

from typing import NamedTuple

from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

UNKNOWN_OFFSET = -1
# A fetch of before Fetch version 15, or an ISR member that has not fetched from this leader yet.
UNKNOWN_BROKER_EPOCH = -1


class ReplicationSettings(NamedTuple):
    min_insync_replicas: int
    lag_time_max_ms: int


# Effects


class HighWatermarkMoved(NamedTuple):
    offset: int


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int


class ProposeIsr(NamedTuple):
    """Send AlterPartition to the controller, and pass its answer as `IsrAnswered`. The request has the leader's own
    broker epoch."""

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int


Effect = HighWatermarkMoved | ProposeIsr


# Events


class Written(NamedTuple):
    """The leader's own replica counts up to here: appended, and flushed where `flush.messages` asks for it."""

    end_offset: int


class FollowerFetched(NamedTuple):
    replica: int
    # As the follower's Fetch says.
    broker_epoch: int
    # Under which the follower is registered. None while it is fenced or shutting down: it may not join the ISR.
    registered_epoch: int | None
    fetch_offset: int
    log_start_offset: int = UNKNOWN_OFFSET


class FollowerSeen(NamedTuple):
    """The follower's last fetch before something was appended, which found that it had everything. Sent instead of a
    `FollowerFetched` for each fetch, by a broker that skips resting partitions of a fetch session. It counts for ISR
    members only: a follower that was removed has to fetch first."""

    replica: int
    seen_ms: int


class RegistrationChanged(NamedTuple):
    """A broker was registered, unfenced, fenced or is shutting down; `registered_epoch` as in `FollowerFetched`."""

    replica: int
    registered_epoch: int | None


class LagChecked(NamedTuple):
    """The time has come that `Leader.next_lag_check_ms` named."""


class IsrAnswered(NamedTuple):
    """The controller's answer to a proposal; an answer superseded by newer metadata is ignored. `partition_epoch` is
    that of the ISR proposed, which counts once the metadata has reached it."""

    proposal: ProposeIsr
    error: ErrorCode
    partition_epoch: int = -1


class MetadataChanged(NamedTuple):
    """The partition, which this broker still leads, or its settings have changed. They come together, as of one point
    of the metadata log: neither counts without the other."""

    state: PartitionState
    settings: ReplicationSettings
    log_end_offset: int


Event = Written | FollowerFetched | FollowerSeen | RegistrationChanged | LagChecked | IsrAnswered | MetadataChanged


# The controller rejected the proposal itself: the committed ISR remains.
_REFUSED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# The proposal was made from outdated metadata: the newer one settles it.
_OUTDATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class FollowerState:
    """The leader's state of one follower."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_at_end",
        "fetched_ms",
        "is_eligible",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.start_offset = UNKNOWN_OFFSET
        self.end_offset = UNKNOWN_OFFSET
        # The leader's end offset and the time at the last fetch.
        self.fetched_at_end = UNKNOWN_OFFSET
        self.fetched_ms = 0
        # The latest time at which the follower is known to have had everything that the leader had then.
        self.caught_up_ms = caught_up_ms
        # Registered with the epoch of its fetches, and neither fenced nor shutting down.
        self.is_eligible = False

    def fetched(self, event: FollowerFetched, leader_end: int, now_ms: int) -> None:
        offset = event.fetch_offset
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.fetched_at_end:
            # It has reached the log end of its previous fetch. Under steady load a follower never reaches the current
            # end.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.start_offset = event.log_start_offset
        self.fetched_at_end = max(leader_end, self.fetched_at_end)
        self.fetched_ms = now_ms
        self.broker_epoch = event.broker_epoch
        self.registered(event.registered_epoch)

    def registered(self, registered_epoch: int | None) -> None:
        self.is_eligible = registered_epoch is not None and self.broker_epoch in (
            registered_epoch,
            UNKNOWN_BROKER_EPOCH,
        )

    def left_isr(self) -> None:
        """The controller has taken it out: for example, its directory has failed while its broker is up. It has to
        fetch before it is waited for again."""
        self.fetched_ms = self.caught_up_ms = 0

    def elected_again(self, leader_end: int, now_ms: int, *, is_in_sync: bool) -> None:
        """The same broker leads in a new epoch. A follower out of sync has to fetch before it may come back."""
        self.fetched_at_end = leader_end
        self.fetched_ms = self.caught_up_ms = now_ms if is_in_sync else 0

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return self.end_offset >= leader_end or now_ms - self.caught_up_ms <= lag_time_max_ms


class Leader:
    """Kafka's `Partition` as the leader sees it. All it does is in `step`; `written` is its most frequent event."""

    __slots__ = (
        "_broker_id",
        "_is_alone",
        "_proposal",
        "_settings",
        "_state",
        "end_offset",
        "epoch_start",
        "followers",
        "high_watermark",
        "isr",
        "partition_epoch",
    )

    def __init__(
        self,
        broker_id: int,
        state: PartitionState,
        settings: ReplicationSettings,
        log_end_offset: int,
        high_watermark: int,
        now_ms: int,
    ) -> None:
        # The counted end of the leader's own replica (`Written`).
        self.end_offset = high_watermark
        self.high_watermark = high_watermark
        self.isr = state.isr
        self.partition_epoch = state.partition_epoch
        # Where this leader's epoch begins: a follower below may still have to truncate.
        self.epoch_start = log_end_offset
        self.followers: dict[int, FollowerState] = {}
        self._broker_id = broker_id
        self._settings = settings
        self._state = state
        # Sent to the controller and not settled yet: at most one is in flight.
        self._proposal: ProposeIsr | None = None
        self._follow(state, now_ms)
        self._is_alone = not self.followers

    # Queries

    @property
    def epoch(self) -> int:
        return self._state.leader_epoch

    @property
    def maximal_isr(self) -> set[int]:
        """The committed ISR and the replicas that are about to join it."""
        joining = () if self._proposal is None else self._proposal.isr
        return {*self.isr, *(member.broker_id for member in joining)}

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self._min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return len(self.isr) == self._min_isr

    @property
    def _min_isr(self) -> int:
        """`min.insync.replicas` is capped at the number of replicas."""
        return min(self._settings.min_insync_replicas, len(self._state.replicas))

    def next_lag_check_ms(self, now_ms: int) -> int | None:
        """The time when a follower that counts will have lagged for too long: a member of the ISR, or one that is
        waited for because it may join soon. None if there is none, or a proposal is in flight."""
        if self._proposal is not None:
            return None
        lag_time_max_ms = self._settings.lag_time_max_ms
        due = [
            follower.caught_up_ms + lag_time_max_ms + 1
            for replica, follower in self.followers.items()
            if follower.end_offset < self.end_offset and (replica in self.isr or self._may_join_soon(follower, now_ms))
        ]
        return min(due, default=None)

    # Events

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Raises Refusal for a fetch that doesn't count; nothing has changed then."""
        match event:
            case Written(end_offset):
                return self._moved(self.written(end_offset, now_ms))
            case FollowerFetched():
                return self._fetched(event, now_ms)
            case FollowerSeen(replica, seen_ms):
                follower = self.followers.get(replica)
                if follower is not None and replica in self.isr:
                    follower.caught_up_ms = max(follower.caught_up_ms, seen_ms)
                return []
            case RegistrationChanged(replica, registered_epoch):
                if replica in self.followers:
                    self.followers[replica].registered(registered_epoch)
                return self._moved(self._advance(now_ms))
            case LagChecked():
                return [*self._shrink(now_ms), *self._moved(self._advance(now_ms))]
            case IsrAnswered():
                return self._answered(event, now_ms)
            case MetadataChanged():
                return self._metadata_changed(event, now_ms)

    def written(self, end_offset: int, now_ms: int) -> bool:
        """`Written`. Returns whether the high watermark has moved."""
        self.end_offset = end_offset
        if self._is_alone and end_offset > self.high_watermark:
            # One replica is the whole ISR: there is no follower to wait for.
            self.high_watermark = end_offset
            return True
        return self._advance(now_ms)

    def _fetched(self, event: FollowerFetched, now_ms: int) -> list[Effect]:
        follower = self.followers.get(event.replica)
        if follower is None:
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {event.replica} is not a replica")
        registered = event.registered_epoch
        if registered is not None and UNKNOWN_BROKER_EPOCH < event.broker_epoch < registered:
            raise Refusal(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {event.replica} fetches with epoch {event.broker_epoch}, but is registered with {registered}",
            )
        follower.fetched(event, self.end_offset, now_ms)
        # Expand first: the new member then counts for the high watermark, so it cannot fall behind it.
        return [*self._expand(event.replica, follower), *self._moved(self._advance(now_ms))]

    def _answered(self, event: IsrAnswered, now_ms: int) -> list[Effect]:
        if event.proposal != self._proposal:
            return []
        if event.error is ErrorCode.NONE and event.partition_epoch > self.partition_epoch:
            # The metadata will show the outcome.
            return []
        if event.error is ErrorCode.INELIGIBLE_REPLICA:
            # The controller knows more than this broker's metadata: such a follower may not join soon.
            for member in event.proposal.isr:
                if member.broker_id in self.followers and member.broker_id not in self.isr:
                    self.followers[member.broker_id].left_isr()
        if event.error is ErrorCode.NONE or event.error in _REFUSED:
            self._proposal = None
            return self._moved(self._advance(now_ms))
        if event.error in _OUTDATED:
            return []
        return [event.proposal]

    def _metadata_changed(self, event: MetadataChanged, now_ms: int) -> list[Effect]:
        state = event.state
        self._settings = event.settings
        is_elected_again = state.leader_epoch > self.epoch
        if is_elected_again or state.partition_epoch > self.partition_epoch:
            for replica in set(self.isr).difference(state.isr) & self.followers.keys():
                self.followers[replica].left_isr()
            self._proposal = None
            self.isr = state.isr
            self.partition_epoch = state.partition_epoch
        self._state = state
        if is_elected_again:
            self.epoch_start = event.log_end_offset
            for replica, follower in self.followers.items():
                follower.elected_again(self.end_offset, now_ms, is_in_sync=replica in state.isr)
        self._follow(state, now_ms)
        self._is_alone = not self.followers
        return self._moved(self._advance(now_ms))

    def _follow(self, state: PartitionState, now_ms: int) -> None:
        for replica in state.replicas:
            if replica != self._broker_id and replica not in self.followers:
                # A follower that is out of sync doesn't hold back the high watermark until it has caught up.
                self.followers[replica] = FollowerState(now_ms if replica in state.isr else 0)
        for replica in self.followers.keys() - set(state.replicas):
            del self.followers[replica]

    # Decisions

    def _moved(self, has_moved: bool) -> list[Effect]:
        return [HighWatermarkMoved(self.high_watermark)] if has_moved else []

    def _advance(self, now_ms: int) -> bool:
        if self.is_under_min_isr:
            return False
        offset, counted = self.end_offset, self.maximal_isr
        for replica, follower in self.followers.items():
            if follower.end_offset < offset and (replica in counted or self._may_join_soon(follower, now_ms)):
                offset = follower.end_offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def _may_join_soon(self, follower: FollowerState, now_ms: int) -> bool:
        """Waiting for such a follower lets it reach the high watermark, and so join, under steady load. Kafka also
        waits for one that the controller has just taken out of the ISR, until it has lagged for too long."""
        return follower.is_eligible and follower.is_caught_up(self.end_offset, now_ms, self._settings.lag_time_max_ms)

    def _expand(self, replica: int, follower: FollowerState) -> list[Effect]:
        if self._proposal is not None or replica in self.isr or not follower.is_eligible:
            return []
        if follower.end_offset < max(self.high_watermark, self.epoch_start):
            return []
        return self._propose((*self.isr, replica))

    def _shrink(self, now_ms: int) -> list[Effect]:
        if self._proposal is not None:
            return []
        lag_time_max_ms = self._settings.lag_time_max_ms
        kept = tuple(
            replica
            for replica in self.isr
            if replica == self._broker_id
            or self.followers[replica].is_caught_up(self.end_offset, now_ms, lag_time_max_ms)
        )
        return self._propose(kept) if kept != self.isr else []

    def _propose(self, isr: tuple[int, ...]) -> list[Effect]:
        # A member that has not fetched from this leader goes without an epoch. That is safe: should it crash now, the
        # controller takes it out of the ISR, which outdates this proposal.
        epochs = {replica: follower.broker_epoch for replica, follower in self.followers.items()}
        members = tuple(IsrMember(replica, epochs.get(replica, UNKNOWN_BROKER_EPOCH)) for replica in isr)
        self._proposal = ProposeIsr(members, self.epoch, self.partition_epoch)
        return [self._proposal]
