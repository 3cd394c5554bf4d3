"""A KIP-848 member and, played by the test, its coordinator and its application; on the test's own time."""

from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from cordwood.client.consumer.membership.events import (
    Answered,
    Ask,
    Assign,
    Effect,
    Event,
    Failed,
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
from cordwood.client.errors import ClientError, NetworkFailed
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

ORDERS = b"o" * 16
BILLS = b"b" * 16
INTERVAL_S = 5.0


def partitions(topic: str, *indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, index) for index in indexes)


class Stage:
    def __init__(self, *, knows_topics: bool = True, **settings: Any) -> None:
        self.settings = ConsumerSettings(group_id="g", group_protocol="consumer", **settings)
        self.member = ConsumerProtocolMember(self.settings, SeededRandom(1))
        self.now_s = 100.0
        self.wake_s: float | None = None
        self.asked: list[ConsumerGroupHeartbeatRequest] = []
        """Requests without a response."""
        self.effects: list[Effect] = []
        """The effects of the last event, without requests and alarms."""
        self.errors: list[ClientError] = []
        self.waiting: Revoke | Lose | Assign | None = None
        if knows_topics:
            self.hear(TopicsChanged({"orders": 4, "bills": 2}, {"orders": ORDERS, "bills": BILLS}))

    def hear(self, event: Event) -> list[Effect]:
        self.effects = []
        for effect in self.member.step(event, self.now_s):
            match effect:
                case Ask(request):
                    assert isinstance(request, ConsumerGroupHeartbeatRequest)
                    self.asked.append(request)
                case WakeAt(at_s):
                    self.wake_s = at_s
                case _:
                    self.effects.append(effect)
                    if isinstance(effect, Raise):
                        self.errors.append(effect.error)
                    elif isinstance(effect, Revoke | Lose | Assign):
                        assert self.waiting is None
                        self.waiting = effect
        return self.effects

    # ---- the application

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        self.hear(Subscribed(frozenset(topics), pattern))

    def poll(self) -> None:
        self.hear(Polled())

    def settle(self) -> list[Effect]:
        assert self.waiting is not None
        self.waiting = None
        return self.hear(Settled())

    def leave(self, *, stays_static: bool = True) -> list[Effect]:
        return self.hear(Leave("the test says so", stays_static))

    # ---- the coordinator

    def answer(self, given: dict[bytes, list[int]] | None = None, *, epoch: int = 1, error: int = 0) -> list[Effect]:
        assignment = None
        if given is not None:
            assignment = Assignment(
                topic_partitions=[
                    ResponseTopicPartitions(topic_id=topic_id, partitions=indexes)
                    for topic_id, indexes in given.items()
                ]
            )
        response = ConsumerGroupHeartbeatResponse(
            error_code=error,
            member_epoch=epoch,
            heartbeat_interval_ms=int(INTERVAL_S * 1000),
            assignment=assignment,
        )
        return self.hear(Answered(self.asked.pop(0), response))

    def lose_answer(self) -> list[Effect]:
        return self.hear(Failed(self.asked.pop(0), NetworkFailed("cut")))

    # ---- time

    def sleep(self, seconds: float) -> None:
        """The member is woken when it has asked for it."""
        end_s = self.now_s + seconds
        while self.wake_s is not None and self.wake_s <= end_s:
            self.now_s, self.wake_s = max(self.now_s, self.wake_s), None
            self.hear(Tick())
        self.now_s = end_s

    # ---- where tests begin

    def joined(self, *indexes: int, epoch: int = 1) -> "Stage":
        """A member that reads these partitions of `orders` and has said so."""
        self.subscribe("orders")
        self.poll()
        self.answer({ORDERS: list(indexes)}, epoch=epoch)
        self.settle()
        if indexes:
            self.answer(epoch=epoch)
        assert not self.asked
        return self
