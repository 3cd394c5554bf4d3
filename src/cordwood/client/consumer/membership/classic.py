"""A member of a classic group: JoinGroup, SyncGroup, heartbeats, LeaveGroup. Sans-IO.

The steps of a rebalance:

    prepare    eager: the application releases all partitions; cooperative (KIP-429): those of unsubscribed topics
    join       JoinGroup carries topics and assignors, and is answered when all members have joined
    sync       the leader assigns; SyncGroup returns each member's assignment
    complete   cooperative: the application releases revoked partitions, and the member rejoins to free them for others;
               new partitions are given to the application

A member that the coordinator no longer knows has lost its partitions. A member whose application does not poll for
`max_poll_interval_ms` leaves by itself, and rejoins at the next poll.
"""

from dataclasses import replace
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    GroupTopics,
    RebalanceProtocol,
    Subscription,
)
from cordwood.client.consumer.assignors.choice import choose_assignors, common_protocol
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership import classic_errors
from cordwood.client.consumer.membership.classic_errors import Remedy
from cordwood.client.consumer.membership.classic_protocol import PROTOCOL_TYPE, read_assignment, write_subscription
from cordwood.client.consumer.membership.classic_states import HEARTBEATING, TRANSITIONS, Move, State
from cordwood.client.consumer.membership.events import (
    Answered,
    Ask,
    Assign,
    CountPartitions,
    Declined,
    Effect,
    Event,
    Failed,
    ForgetCoordinator,
    Leave,
    Lose,
    Polled,
    Raise,
    Revoke,
    Settled,
    Subscribed,
    Tick,
    TopicsChanged,
    WakeAt,
)
from cordwood.client.consumer.membership.generation import Generation
from cordwood.client.consumer.membership.leading import Leading, asking
from cordwood.client.consumer.membership.liveness import Liveness
from cordwood.client.consumer.membership.possession import Possession, Step
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting, BrokerError, ClientError, IllegalState
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from cordwood.wire.schema import Request

# A join waits for the others up to the rebalance timeout; its response may take slightly longer.
_JOIN_TIMEOUT_LAPSE_MS = 5_000


class ClassicMember:
    """The machine; see `events` for how it is driven. Raises `BadSetting` for incompatible assignors."""

    def __init__(self, settings: ConsumerSettings, random: Random) -> None:
        if settings.group_id is None:
            raise BadSetting("group_id is not set: without a group, a consumer reads the partitions passed to assign()")
        if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
            raise BadSetting("heartbeat_interval_ms must be smaller than session_timeout_ms")
        self._settings = settings
        self._group_id = settings.group_id
        self._assignors = choose_assignors(settings.partition_assignment_strategy)
        self._protocol = common_protocol(self._assignors)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._liveness = Liveness(settings, self._backoff)

        self._state = State.OUT
        self._generation = Generation(settings.group_id, settings.group_instance_id)
        # As of the last finished rebalance.
        self._metadata = self._generation.metadata
        self._possession = Possession()
        self._leading: Leading | None = None
        self._cluster = GroupTopics({})
        self._topics: frozenset[str] = frozenset()
        # The contents of the last JoinGroup.
        self._joined_topics: frozenset[str] = frozenset()

        # The reason to (re)join; None if there is no need.
        self._rejoin: str | None = None
        self._is_prepared = False
        self._needs_poll = False
        self._leaving: Leave | None = None
        self._leave_by_s = 0.0
        self._failures = 0
        self._not_before_s = 0.0

        self._in_flight: JoinGroupRequest | SyncGroupRequest | None = None
        self._heartbeat: HeartbeatRequest | None = None
        self._effects: list[Effect] = []
        self._wake_at_s: float | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self._possession.assignment

    @property
    def metadata(self) -> GroupMetadata:
        return self._metadata

    @property
    def is_rebalancing(self) -> bool:
        return self._state not in (State.OUT, State.STABLE)

    def step(self, event: Event, now_s: float) -> list[Effect]:
        match event:
            case Subscribed(topics):
                self._topics = topics
                if self._state is State.OUT and self._leaving is None:
                    self._come_in()
            case TopicsChanged(counts, _, racks):
                self._learn(GroupTopics(counts, racks))
            case Polled():
                self._liveness.polled(now_s)
                if not self._needs_poll:
                    # Applications poll often; nothing else follows from it.
                    return []
                self._needs_poll = False
            case Answered(request, response):
                self._hear(request, response, now_s)
            case Failed(request):
                self._miss(request, now_s)
            case Settled():
                self._effects += self._possession.settle()
            case Declined():
                self._effects += self._possession.decline()
            case Leave():
                self._leaving = event
                self._leave_by_s = now_s + self._settings.heartbeat_interval_ms / 1000
                self._topics = frozenset()
            case Tick():
                # It may have come a moment too early, and is then requested again.
                self._wake_at_s = None
        self._advance(now_s)
        effects, self._effects = self._effects, []
        return effects

    def _come_in(self) -> None:
        self._move(Move.SUBSCRIBED)
        self._rejoin = ""
        self._needs_poll = True
        self._is_prepared = False
        self._not_before_s = 0.0

    def _hear(self, request: Request[Any], response: Any, now_s: float) -> None:
        if request is self._in_flight:
            if isinstance(request, JoinGroupRequest):
                self._end_join(response, now_s)
            else:
                self._end_sync(response, now_s)
        elif request is self._heartbeat:
            self._heartbeat = None
            self._end_heartbeat(response, now_s)

    # ---- next steps

    def _advance(self, now_s: float) -> None:
        if self._state in HEARTBEATING:
            self._stay_alive(now_s)
        if self._possession.is_settled:
            if self._leaving is not None:
                self._go(self._leaving, now_s)
            elif self._wants_to_join(now_s):
                self._join()
        self._wake_later(now_s)

    def _wants_to_join(self, now_s: float) -> bool:
        if self._state is State.STABLE:
            self._notice_changes()
        elif self._state is not State.UNJOINED:
            return False
        return self._rejoin is not None and not self._needs_poll and now_s >= self._not_before_s

    def _notice_changes(self) -> None:
        if self._rejoin is not None:
            return
        if self._topics != self._joined_topics:
            self._rejoin = "subscription has changed"
        elif self._leading is not None and self._leading.is_outdated:
            self._rejoin = "cached metadata has changed"

    def _wake_later(self, now_s: float) -> None:
        times = []
        if self._state in HEARTBEATING:
            times += [self._liveness.poll_ends_s, self._liveness.session_ends_s]
            if self._heartbeat is None:
                times.append(self._liveness.next_heartbeat_s)
        if self._rejoin is not None and self._not_before_s > now_s:
            times.append(self._not_before_s)
        if self._leaving is not None and self._leave_by_s > now_s:
            times.append(self._leave_by_s)
        wake_at_s = min(times, default=None)
        if wake_at_s is not None and wake_at_s != self._wake_at_s:
            self._effects.append(WakeAt(wake_at_s))
        self._wake_at_s = wake_at_s

    # ---- joining

    def _join(self) -> None:
        if not self._is_prepared:
            self._is_prepared = True
            self._prepare()
            if not self._possession.is_settled:
                return
        try:
            protocols = [self._offer(assignor) for assignor in self._assignors]
        except ClientError as error:
            self._give_up(error)
            return
        self._leading = None
        self._joined_topics = self._topics
        self._in_flight = self._generation.join(
            protocols,
            self._rejoin or "",
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
        )
        self._move(Move.JOIN_SENT)
        # Joins have their own connection: a heartbeat of the previous generation in flight may be processed after this
        # join. The join's response decides about the member.
        self._heartbeat = None
        self._ask_patiently(self._in_flight)

    def _prepare(self) -> None:
        assignment = self._possession.assignment
        if not assignment:
            return
        if self._generation.is_void:
            self._tell(Lose(assignment))
        elif self._protocol is RebalanceProtocol.EAGER:
            self._tell(Revoke(assignment))
        elif unread := frozenset(partition for partition in assignment if partition.topic not in self._topics):
            self._tell(Revoke(unread))

    def _offer(self, assignor: Assignor) -> JoinGroupRequestProtocol:
        with asking(assignor):
            user_data = assignor.subscription_user_data(self._topics)
        subscription = Subscription(
            topics=sorted(self._topics),
            user_data=user_data,
            owned_partitions=sorted(self._possession.assignment),
            generation_id=self._generation.id,
            rack_id=self._settings.client_rack or None,
        )
        return JoinGroupRequestProtocol(name=assignor.name, metadata=write_subscription(subscription))

    def _end_join(self, response: JoinGroupResponse, now_s: float) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            remedy = classic_errors.JOIN.get(code, Remedy.GIVE_UP)
            if remedy is Remedy.TAKE_ID:
                self._generation = replace(self._generation.void(), member_id=response.member_id)
                self._join_again("need to re-join with the given member-id: " + response.member_id)
            else:
                self._remedy(remedy, code, "JoinGroup", now_s)
            return
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            self._give_up(self._broker_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        self._generation = replace(
            self._generation,
            member_id=response.member_id,
            id=response.generation_id,
            protocol_name=response.protocol_name,
        )
        # A response for the previous generation is irrelevant to this one.
        self._heartbeat = None
        self._liveness.restart(now_s)
        if response.leader == response.member_id:
            self._lead(response)
        else:
            self._sync([], Move.JOINED)

    # ---- leading

    def _lead(self, response: JoinGroupResponse) -> None:
        try:
            self._leading = Leading(self._assignor(), self._protocol, response.members)
        except ClientError as error:
            self._give_up(error)
            return
        if response.skip_assignment:
            # A returning static leader: the group's assignment is kept (KIP-814).
            self._leading.keep(self._cluster)
            self._sync([], Move.JOINED)
            return
        self._in_flight = None
        self._move(Move.ELECTED)
        if self._leading.topics <= self._topics & self._cluster.partition_counts.keys():
            self._assign()
        else:
            self._effects.append(CountPartitions(self._leading.topics))

    def _learn(self, cluster: GroupTopics) -> None:
        self._cluster = cluster
        if self._state is State.ASSIGNING:
            self._assign()
        elif self._leading is not None:
            self._leading.learn(cluster)

    def _assign(self) -> None:
        assert self._leading is not None
        try:
            assignments = self._leading.assign(self._cluster)
        except ClientError as error:
            self._give_up(error)
            return
        self._sync(assignments, Move.ASSIGNED)

    def _assignor(self) -> Assignor:
        """Raises `IllegalState`."""
        name = self._generation.protocol_name
        for assignor in self._assignors:
            if assignor.name == name:
                return assignor
        raise IllegalState(f"the coordinator chose the assignor {name}, which this member does not have")

    # ---- syncing

    def _sync(self, assignments: list[SyncGroupRequestAssignment], move: Move) -> None:
        self._in_flight = self._generation.sync(assignments)
        self._move(move)
        self._ask_patiently(self._in_flight)

    def _end_sync(self, response: SyncGroupResponse, now_s: float) -> None:
        code = ErrorCode.of(response.error_code)
        if code is not ErrorCode.NONE:
            self._remedy(classic_errors.SYNC.get(code, Remedy.GIVE_UP), code, "SyncGroup", now_s)
            return
        if response.protocol_type not in (None, PROTOCOL_TYPE) or (
            response.protocol_name not in (None, self._generation.protocol_name)
        ):
            self._give_up(self._broker_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        try:
            assignor = self._assignor()
            assignment = read_assignment(response.assignment)
            with asking(assignor):
                assignor.on_assignment(assignment, self._generation.metadata)
        except ClientError as error:
            self._give_up(error)
            return
        self._move(Move.SYNCED)
        self._in_flight = None
        self._rejoin = None
        self._is_prepared = False
        self._failures = 0
        self._metadata = self._generation.metadata
        self._complete(assignment)

    def _complete(self, assignment: Assignment) -> None:
        if self._leaving is not None:
            return
        if not {partition.topic for partition in assignment.partitions} <= self._topics:
            self._rejoin = "received assignment does not match the current subscription"
            return
        owned, assigned = self._possession.assignment, frozenset(assignment.partitions)
        # None with the eager protocol, which has revoked all.
        if taken := owned - assigned:
            self._rejoin = "need to revoke partitions and re-join"
            self._tell(Revoke(taken))
        self._tell(Assign(assigned - owned))

    # ---- staying alive

    def _stay_alive(self, now_s: float) -> None:
        if now_s >= self._liveness.poll_ends_s:
            self._leave_late_application()
            return
        if now_s >= self._liveness.session_ends_s:
            # The coordinator may be gone; another one may have the group.
            self._effects.append(ForgetCoordinator())
            self._liveness.begin_again(now_s)
            self._heartbeat = None
        if self._heartbeat is None and now_s >= self._liveness.next_heartbeat_s:
            self._liveness.sent(now_s)
            self._heartbeat = self._generation.heartbeat()
            self._effects.append(Ask(self._heartbeat))

    def _leave_late_application(self) -> None:
        self._ask_to_leave("consumer poll timeout has expired.", stays_static=True)
        self._begin_again("consumer pro-actively leaving the group")
        self._needs_poll = True

    def _end_heartbeat(self, response: HeartbeatResponse, now_s: float) -> None:
        code = ErrorCode.of(response.error_code)
        if code is ErrorCode.NONE:
            self._liveness.answered(now_s)
            return
        # Unknown errors are no reason to leave a group: retry.
        match classic_errors.HEARTBEAT.get(code, Remedy.RETRY):
            case Remedy.REJOIN:
                self._liveness.answered(now_s)
                if self._state is State.STABLE and self._rejoin is None:
                    self._rejoin = "group is already rebalancing"
            case Remedy.RETRY:
                self._liveness.failed(now_s)
            case Remedy.FIND_COORDINATOR:
                self._liveness.failed(now_s)
                self._effects.append(ForgetCoordinator())
            case remedy:
                self._remedy(remedy, code, "Heartbeat", now_s)

    # ---- failures

    def _miss(self, request: Request[Any], now_s: float) -> None:
        if request is self._in_flight:
            self._pause(now_s)
            self._join_again("rebalance failed due to a lost connection")
        elif request is self._heartbeat:
            self._heartbeat = None
            self._liveness.failed(now_s)

    def _remedy(self, remedy: Remedy, code: ErrorCode, api: str, now_s: float) -> None:
        reason = f"encountered {code.name} from {api} response"
        match remedy:
            case Remedy.RETRY | Remedy.FIND_COORDINATOR:
                if remedy is Remedy.FIND_COORDINATOR:
                    self._effects.append(ForgetCoordinator())
                self._pause(now_s)
                self._join_again(reason)
            case Remedy.REJOIN:
                self._join_again(reason)
            case Remedy.REJOIN_WITH_ID | Remedy.REJOIN_AS_NEW:
                self._begin_again(reason, keeps_id=remedy is Remedy.REJOIN_WITH_ID)
            case _:
                self._give_up(self._broker_error(code))

    def _join_again(self, reason: str) -> None:
        self._move(Move.FAILED)
        self._in_flight = self._heartbeat = None
        self._rejoin = reason

    def _begin_again(self, reason: str, *, keeps_id: bool = False) -> None:
        """The member has lost its assignment, and rejoins."""
        self._forget(keeps_id=keeps_id)
        self._join_again(reason)
        self._is_prepared = False

    def _pause(self, now_s: float) -> None:
        self._failures += 1
        self._not_before_s = now_s + self._backoff.pause_s(self._failures)

    def _give_up(self, error: ClientError) -> None:
        self._end()
        self._effects.append(Raise(error))

    def _broker_error(self, code: ErrorCode) -> BrokerError:
        return BrokerError(code, subject=f"group {self._group_id}")

    # ---- leaving

    def _go(self, leaving: Leave, now_s: float) -> None:
        if assignment := self._possession.assignment:
            # At the start of a generation commits are impossible, which is brief unless the leader hangs.
            is_between = self._state in (State.ASSIGNING, State.SYNCING)
            if is_between and now_s < self._leave_by_s:
                return
            self._tell(Lose(assignment) if is_between or self._generation.is_void else Revoke(assignment))
            return
        self._ask_to_leave(leaving.reason, leaving.stays_static)
        self._leaving = None
        self._end()
        if self._topics:
            self._come_in()

    def _ask_to_leave(self, reason: str, stays_static: bool) -> None:
        """Tried once; a coordinator that does not get it will notice the missing heartbeats."""
        is_static = self._generation.group_instance_id is not None
        if self._generation.member_id and not (is_static and stays_static):
            self._effects.append(Ask(self._generation.leave(reason)))

    def _end(self) -> None:
        self._move(Move.ENDED)
        self._forget()
        self._in_flight = self._heartbeat = None
        self._rejoin = None
        self._leading = None

    def _forget(self, *, keeps_id: bool = False) -> None:
        self._generation = self._generation.void(keeps_id=keeps_id)
        self._metadata = self._generation.void().metadata

    # ---- helpers

    def _move(self, move: Move) -> None:
        self._state = TRANSITIONS[self._state, move]

    def _tell(self, step: Step) -> None:
        self._effects += self._possession.tell(step)

    def _ask_patiently(self, request: JoinGroupRequest | SyncGroupRequest) -> None:
        """Sends a request that waits for other members, with a longer timeout."""
        timeout_ms = self._settings.max_poll_interval_ms + _JOIN_TIMEOUT_LAPSE_MS
        self._effects.append(Ask(request, max(self._settings.request_timeout_ms, timeout_ms)))
