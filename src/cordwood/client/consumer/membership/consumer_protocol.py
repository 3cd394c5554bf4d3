"""A member of a group whose coordinator assigns (KIP-848): heartbeats carry everything, both ways.

The member sends its subscription and owned partitions; the coordinator returns the target assignment. The member
revokes partitions first and confirms that, since others wait for them, then takes the new ones. Topics come by id:
unknown ids wait until their names are resolved.
"""

from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.membership.consumer_heartbeats import Heartbeats, TopicIdPartition
from cordwood.client.consumer.membership.consumer_states import IN_GROUP, NEXT_STATES, MemberState
from cordwood.client.consumer.membership.events import (
    Answered,
    Ask,
    Assign,
    Declined,
    Effect,
    Event,
    Failed,
    FindTopics,
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
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BrokerError, ClientError, UnsupportedByBroker
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from cordwood.wire.primitives import Uuid, uuid_text
from cordwood.wire.schema import Request


class ConsumerProtocolMember:
    """The machine of `events` for group_protocol=consumer. It generates its own member id, and keeps it (KIP-1082)."""

    def __init__(self, settings: ConsumerSettings, random: Random) -> None:
        assert settings.group_id is not None
        self.state = MemberState.UNSUBSCRIBED
        self._group_id = settings.group_id
        self._instance_id = settings.group_instance_id
        self._max_poll_interval_s = settings.max_poll_interval_ms / 1000
        self._member_id = uuid_text(bytes(random.below(256) for _ in range(16)))
        self._heartbeats = Heartbeats(settings, self._member_id)
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._effects: list[Effect] = []
        # The application's subscription, and the time of its last poll.
        self._subscription = Subscribed(frozenset())
        self._is_wanted = False
        self._polled_s = 0.0
        self._is_back = False
        self._stays_static = True
        # Owned, pending and target partitions; None if none was received since joining.
        self._owned: dict[TopicPartition, Uuid] = {}
        self._arriving: dict[TopicPartition, Uuid] = {}
        self._target: frozenset[TopicIdPartition] | None = None
        self._target_was_told = False
        self._waiting: Revoke | Lose | Assign | None = None
        self._topic_names: dict[Uuid, str] = {}
        # The coordinator's knowledge about this member.
        self._epoch = 0
        self._is_known = False
        self._gave_instance_back = False
        self._in_flight: ConsumerGroupHeartbeatRequest | None = None
        self._sent_s = 0.0
        self._interval_s = 0.0
        self._next_heartbeat_s = 0.0
        self._owes_acknowledgement = False
        self._failures = 0
        self._wake_s: float | None = None

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._owned)

    @property
    def metadata(self) -> GroupMetadata:
        if self._epoch <= 0:
            return GroupMetadata(self._group_id, group_instance_id=self._instance_id)
        return GroupMetadata(self._group_id, self._epoch, self._member_id, self._instance_id)

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (MemberState.JOINING, MemberState.RECONCILING)

    def step(self, event: Event, now_s: float) -> list[Effect]:
        self._effects = []
        match event:
            case Subscribed():
                self._subscription = event
                self._is_wanted = True
                if self.state not in IN_GROUP:
                    # It joins within the next poll.
                    self._is_back = False
            case TopicsChanged(topic_ids=topic_ids):
                self._learn_names(dict(topic_ids))
            case Polled():
                self._polled_s = now_s
                self._is_back = True
                if self.state is MemberState.STABLE and self._wake_s is not None and now_s < self._wake_s:
                    # Nothing is due: applications that poll for each record must pay little for it.
                    return []
            case Answered(request, response) if request is self._in_flight:
                self._in_flight = None
                self._hear(request, response, now_s)
            case Failed(request) if request is self._in_flight:
                self._in_flight = None
                self._gave_instance_back = False
                self._try_again(now_s)
            case Settled():
                self._settle()
            case Declined():
                self._arriving = {}
                self._waiting = None
            case Leave(_, stays_static):
                self._is_wanted = False
                self._stays_static = stays_static
                if self.state in IN_GROUP:
                    self._become(MemberState.PREPARE_LEAVING)
            case Tick():
                self._wake_s = None
        self._go_on(now_s)
        return self._effects

    def _go_on(self, now_s: float) -> None:
        """Performs all steps that follow from the current state."""
        if self.state in IN_GROUP and now_s >= self._polled_s + self._max_poll_interval_s:
            self._become_stale()
        self._change_assignment()
        if self._waiting is None:
            self._come_and_go(now_s)
        self._send_heartbeat(now_s)
        self._ask_to_be_woken(now_s)

    # ---- joining and leaving

    def _come_and_go(self, now_s: float) -> None:
        """Enters the next state, which may depend on the application having released its partitions."""
        match self.state:
            case MemberState.PREPARE_LEAVING if self._is_known:
                self._become(MemberState.LEAVING)
                self._say_goodbye(stays_static=self._stays_static)
            case MemberState.PREPARE_LEAVING:
                self._become(MemberState.UNSUBSCRIBED)
            case MemberState.LEAVING if self._in_flight is None:
                self._become(MemberState.UNSUBSCRIBED)
            case MemberState.FENCED | MemberState.STALE if not self._is_wanted:
                self._become(MemberState.UNSUBSCRIBED)
            case MemberState.FATAL if self._is_wanted:
                self._become(MemberState.UNSUBSCRIBED)
        match self.state:
            case MemberState.FENCED:
                self._join(now_s)
            case MemberState.STALE | MemberState.UNSUBSCRIBED if self._is_wanted and self._is_back:
                self._join(now_s)

    def _join(self, now_s: float) -> None:
        self._become(MemberState.JOINING)
        # The poll interval restarts, however long releasing partitions took.
        self._polled_s = now_s
        if self._failures == 0:
            self._next_heartbeat_s = now_s

    def _become_stale(self) -> None:
        """The application is stuck or slow. Others take over; at its next poll it is told that it has lost
        everything."""
        self._become(MemberState.STALE)
        self._is_back = False
        self._leave_epoch_behind()
        if self._is_known:
            self._say_goodbye(stays_static=True)

    def _become_fenced(self) -> None:
        self._is_known = False
        self._leave_epoch_behind()
        if self.state in IN_GROUP:
            self._become(MemberState.FENCED)

    def _become_fatal(self, error: ClientError) -> None:
        self._is_known = False
        self._leave_epoch_behind()
        if self.state in IN_GROUP:
            self._become(MemberState.FATAL)
            # The application must subscribe again.
            self._is_wanted = False
            self._effects.append(Raise(error))

    def _leave_epoch_behind(self) -> None:
        self._epoch = 0
        self._target = None
        self._owes_acknowledgement = False
        self._heartbeats.forget()

    def _say_goodbye(self, *, stays_static: bool) -> None:
        """Sends a leave request; responses to earlier requests are ignored."""
        self._in_flight = self._heartbeats.leave(stays_static=stays_static)
        self._is_known = False
        self._effects.append(Ask(self._in_flight))
        if self.state is MemberState.LEAVING:
            self._leave_epoch_behind()

    def _become(self, state: MemberState) -> None:
        assert state in NEXT_STATES[self.state], f"{state.name} is not a valid transition from {self.state.name}"
        self.state = state

    # ---- assignment

    def _change_assignment(self) -> None:
        """Starts one step of a change, when the application has finished the last one."""
        if self._waiting is not None:
            return
        match self.state:
            case MemberState.RECONCILING:
                self._reconcile()
            case MemberState.PREPARE_LEAVING if self._owned and self._epoch > 0:
                self._hand_over(Revoke(frozenset(self._owned)))
            case MemberState.PREPARE_LEAVING | MemberState.FENCED | MemberState.STALE | MemberState.FATAL if (
                self._owned
            ):
                # A removed member has lost them already.
                self._hand_over(Lose(frozenset(self._owned)))

    def _reconcile(self) -> None:
        assert self._target is not None
        wanted = {
            TopicPartition(self._topic_names[topic_id], partition): topic_id
            for topic_id, partition in self._target
            if topic_id in self._topic_names
        }
        unwanted = frozenset(
            partition for partition, topic_id in self._owned.items() if wanted.get(partition) != topic_id
        )
        if unwanted:
            self._hand_over(Revoke(unwanted))
            return
        self._arriving = {partition: topic_id for partition, topic_id in wanted.items() if partition not in self._owned}
        is_whole = len(wanted) == len(self._target)
        if self._arriving or (is_whole and not self._target_was_told):
            self._target_was_told = is_whole
            self._hand_over(Assign(frozenset(self._arriving)))
        elif is_whole:
            acknowledged = self._heartbeats.is_acknowledged(self._claimed)
            self._become(MemberState.STABLE if acknowledged else MemberState.ACKNOWLEDGING)

    def _hand_over(self, step: Revoke | Lose | Assign) -> None:
        self._waiting = step
        self._effects.append(step)

    def _settle(self) -> None:
        if isinstance(self._waiting, Assign):
            self._owned |= self._arriving
            self._arriving = {}
        elif self._waiting is not None:
            for partition in self._waiting.partitions:
                self._owned.pop(partition, None)
        self._waiting = None
        self._owes_acknowledgement = self._epoch > 0 and not self._heartbeats.is_acknowledged(self._claimed)

    @property
    def _claimed(self) -> frozenset[TopicIdPartition]:
        """Partitions that the coordinator must not give to others, including those just being assigned to the
        application."""
        claimed = {**self._owned, **self._arriving}
        return frozenset((topic_id, partition.partition) for partition, topic_id in claimed.items())

    def _learn_names(self, topic_ids: dict[str, Uuid]) -> None:
        # A recreated topic has another id; the old id is meaningless.
        self._topic_names = {
            topic_id: name for topic_id, name in self._topic_names.items() if topic_ids.get(name, topic_id) == topic_id
        }
        self._topic_names |= {topic_id: name for name, topic_id in topic_ids.items()}

    # ---- heartbeats

    def _send_heartbeat(self, now_s: float) -> None:
        if self._in_flight is not None or now_s < self._heartbeat_due_s(now_s):
            return
        if self.state is MemberState.JOINING:
            self._in_flight = self._heartbeats.join(self._subscription)
            self._is_known = True
        elif self._is_beating:
            self._in_flight = self._heartbeats.beat(self._epoch, self._subscription, self._claimed)
            self._owes_acknowledgement = False
            if self.state is MemberState.ACKNOWLEDGING:
                self._become(MemberState.STABLE)
        else:
            return
        self._sent_s = now_s
        self._next_heartbeat_s = now_s + self._interval_s
        self._effects.append(Ask(self._in_flight))

    def _heartbeat_due_s(self, now_s: float) -> float:
        has_news = self._owes_acknowledgement or self._heartbeats.is_news(self._subscription)
        is_urgent = has_news and self._failures == 0 and self.state in IN_GROUP
        return now_s if is_urgent else self._next_heartbeat_s

    @property
    def _is_beating(self) -> bool:
        """While it prepares to leave, the application may still commit."""
        return self._epoch > 0 and (self.state in IN_GROUP or self.state is MemberState.PREPARE_LEAVING)

    def _hear(self, request: Request[Any], response: ConsumerGroupHeartbeatResponse, now_s: float) -> None:
        if response.error_code != ErrorCode.NONE:
            error = BrokerError(response.error_code, response.error_message, f"group {self._group_id}")
            self._hear_refusal(request, error, now_s)
            return
        if not self._is_known:
            # The member has left.
            return
        self._failures = 0
        self._gave_instance_back = False
        self._epoch = response.member_epoch
        self._interval_s = response.heartbeat_interval_ms / 1000
        self._next_heartbeat_s = self._sent_s + self._interval_s
        if self.state not in IN_GROUP:
            return
        if response.assignment is not None or self.state is MemberState.JOINING:
            self._take_target(response.assignment)
        unknown = frozenset(topic_id for topic_id, _ in self._target or () if topic_id not in self._topic_names)
        if unknown:
            self._effects.append(FindTopics(unknown))

    def _take_target(self, assignment: Assignment | None) -> None:
        told = assignment.topic_partitions if assignment is not None else []
        target = frozenset((topic.topic_id, partition) for topic in told for partition in topic.partitions)
        if target == self._target:
            return
        self._target = target
        self._target_was_told = False
        if self.state is not MemberState.RECONCILING:
            self._become(MemberState.RECONCILING)

    def _hear_refusal(self, request: Request[Any], error: BrokerError, now_s: float) -> None:
        if not self._is_known:
            # A refused leave does no harm: the session will expire.
            return
        if error.code in _NOT_COORDINATOR:
            self._effects.append(ForgetCoordinator())
        if error.code in _FENCED:
            self._become_fenced()
            self._try_again(now_s)
            if self._failures == 1:
                # Don't wait: the coordinator accepts new members.
                self._next_heartbeat_s = now_s
        elif error.retriable:
            self._try_again(now_s)
        elif error.code == ErrorCode.UNRELEASED_INSTANCE_ID and not self._gave_instance_back:
            # The member itself may own the id: a join's response was lost, or a leave did not arrive. Release it, which
            # fails if it belongs to another client.
            self._gave_instance_back = True
            self._say_goodbye(stays_static=True)
            self._next_heartbeat_s = now_s
        else:
            self._become_fatal(explained(request, error))

    def _try_again(self, now_s: float) -> None:
        """Retries later with a complete heartbeat, because it is unknown what the coordinator received."""
        self._heartbeats.forget()
        self._failures += 1
        self._next_heartbeat_s = now_s + self._backoff.pause_s(self._failures)

    # ---- timers

    def _ask_to_be_woken(self, now_s: float) -> None:
        times = []
        if self.state in IN_GROUP:
            times.append(self._polled_s + self._max_poll_interval_s)
        if self._in_flight is None and (self._is_beating or self.state is MemberState.JOINING):
            times.append(self._heartbeat_due_s(now_s))
        if not times:
            return
        # Waking too early does no harm, so an existing timer is good enough.
        if self._wake_s is None or min(times) < self._wake_s:
            self._wake_s = min(times)
            self._effects.append(WakeAt(self._wake_s))


def explained(request: Request[Any], error: ClientError) -> ClientError:
    """Converts errors of a cluster that is too old for KIP-848 into one with advice."""
    if error.code != ErrorCode.UNSUPPORTED_VERSION or not isinstance(request, ConsumerGroupHeartbeatRequest):
        return error
    return UnsupportedByBroker(
        f"the cluster does not support group_protocol='consumer' ({error}): set group_protocol='classic'"
    )


_NOT_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
