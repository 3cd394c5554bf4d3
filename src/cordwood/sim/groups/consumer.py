"""A member of a group in the consumer protocol (KIP-848): sends heartbeats, and follows their responses."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Run, by_topic
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from cordwood.wire.primitives import uuid_text

from .coordinator import UNAVAILABLE
from .member import Fenced, GroupPlan, Member
from .offsets import Identity

_JOINING, _LEAVING, _LEAVING_FOR_NOW = 0, -1, -2
_OWN_IDS_SINCE = 1
_ASSIGNORS = (None, None, "uniform", "range")
_BACKOFF_S = 0.3
_SLOW_TO_LET_GO = 0.1
_COMES_BACK = 0.7
_REGEX = 0.2


class ConsumerMember(Member):
    def __init__(self, run: Run, name: str, plan: GroupPlan, instance_id: str | None) -> None:
        super().__init__(run, name, plan, instance_id)
        self._heartbeat_due_s = 0.0
        self._assignor = self.source.choice(_ASSIGNORS)
        self._regex = "|".join(plan.topics) if self.chance(_REGEX) else None
        # The owned partitions last reported to the coordinator; None: the next heartbeat must be complete.
        self._told: list[Partition] | None = None

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.instance_id, self.generation, has_epoch=True)

    async def join(self) -> None:
        self.hands.let_go_of_all()
        self.generation = _JOINING
        while self.generation == _JOINING:
            await self._beat()
            if self.generation == _JOINING:
                await self.pause(_BACKOFF_S)

    async def heartbeat(self) -> None:
        if self.run.now_s >= self._heartbeat_due_s:
            await self._beat()

    async def _beat(self) -> None:
        version = 1 if self._regex is not None or not self.member_id else self.source.randrange(2)
        if not self.member_id and version >= _OWN_IDS_SINCE:
            self.member_id = uuid_text(self.source.randbytes(16))
        asked_s = self.run.now_s
        try:
            response = await self.ask(self._request(), version)
        except NetworkError:
            self._told = None
            raise
        self._heartbeat_due_s = self.run.now_s + self.plan.session_timeout_s * self.source.uniform(0.1, 0.3)
        match ErrorCode(response.error_code):
            case ErrorCode.NONE:
                await self._take_in(response, asked_s)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.FENCED_INSTANCE_ID as error:
                self._told = None
                raise Fenced(error.name)
            case error if error in UNAVAILABLE:
                self._told = None
                raise NetworkError(f"no coordinator: {error.name}")
            case _:
                # The instance has not been released, or the group is full or of another kind: perhaps later.
                self._told = None
                if self.generation != _JOINING:
                    raise Fenced("it cannot go on")

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance_id,
        )
        if self.generation == _JOINING or self._told is None:
            request.rebalance_timeout_ms = int(self.plan.rebalance_timeout_s * 1000)
            request.server_assignor = self._assignor
            if self._regex is not None:
                request.subscribed_topic_regex = self._regex
            else:
                request.subscribed_topic_names = list(self.plan.topics)
        held = self.hands.held
        if self._told != held:
            request.topic_partitions = [
                RequestTopicPartitions(topic_id=self.run.topic_ids[topic], partitions=indexes)
                for topic, indexes in by_topic(held)
            ]
            self._told = held
        return request

    async def _take_in(self, response: ConsumerGroupHeartbeatResponse, asked_s: float) -> None:
        assigned = None if response.assignment is None else self._partitions(response.assignment)
        revoked = [] if assigned is None else [partition for partition in self.hands.held if partition not in assigned]
        self.hands.was_heard(asked_s)
        if not revoked:
            self.hands.was_left_alone(asked_s)
        self.member_id = response.member_id or self.member_id
        self.generation = response.member_epoch
        if assigned is None:
            return
        if revoked:
            if self.chance(_SLOW_TO_LET_GO):
                await self.pause(self.plan.rebalance_timeout_s * 1.5)
            await self.commit_before_letting_go()
            if not all(partition in self.hands for partition in revoked):
                raise Fenced("it got that error when it committed")
            self.hands.let_go(revoked)
        self.hands.take(
            [partition for partition in assigned if partition not in self.hands],
            self.instance_id or self.member_id,
        )
        if self._told != self.hands.held:
            # Released and newly owned partitions are reported at once.
            self._heartbeat_due_s = self.run.now_s

    def _partitions(self, assignment: Assignment) -> list[Partition]:
        names = {topic_id: name for name, topic_id in self.run.topic_ids.items()}
        return [(names[topic.topic_id], index) for topic in assignment.topic_partitions for index in topic.partitions]

    async def leave(self) -> None:
        comes_back = self.instance_id is not None and self.chance(_COMES_BACK)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.plan.group_id,
            member_id=self.member_id,
            member_epoch=_LEAVING_FOR_NOW if comes_back else _LEAVING,
            instance_id=self.instance_id,
        )
        await self.ask(request)

    def forget_identity(self) -> None:
        self.member_id = ""
        self.generation = _JOINING
        self._told = None
