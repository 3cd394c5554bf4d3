"""Transcripts of a member of a classic group: a script of its events and effects, as text.

    # One who joins alone leads its group.
    > subscribe orders
    > poll
    JoinGroup as "" range: orders
    > answer JoinGroup error=MEMBER_ID_REQUIRED member=m1

Lines that begin with `>` are events for the machine, one after the other, in virtual time; the lines below one are its
effects. Those of `wait` say how long after. Commands:

    > settings key=value …             before anything else
    > topics NAME=PARTITIONS …         everything that the cluster has
    > subscribe TOPIC … | > poll | > settled | > show
    > leave REASON | > leave-for-good REASON
    > wait SECONDS
    > answer API [error=CODE] field=value …    to the last request of that API
    > fail API

To write down what happens now, after having thought about it: CORDWOOD_REWRITE_TRANSCRIPTS=1 pytest …
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import Assignment, Subscription
from cordwood.client.consumer.membership.classic import ClassicMember
from cordwood.client.consumer.membership.classic_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from cordwood.client.consumer.membership.events import (
    Answered,
    Ask,
    Assign,
    CountPartitions,
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
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import NetworkFailed
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from cordwood.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def check(path: Path) -> None:
    """Runs a transcript and compares; or rewrites it."""
    expected = path.read_text()
    happened = "".join(f"{line}\n" for line in _run(expected.splitlines()))
    if os.environ.get("CORDWOOD_REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == expected


def _run(lines: Iterable[str]) -> Iterator[str]:
    stage: _Stage | None = None
    settings = ConsumerSettings(group_id="g", partition_assignment_strategy=("range",))
    for line in lines:
        if not line.startswith(">"):
            if line.startswith("#") or not line:
                yield line
            continue
        yield line
        verb, *words = line[1:].split()
        if verb == "settings":
            settings = replace(settings, **dict(_setting(word) for word in words))
            continue
        if stage is None:
            stage = _Stage(settings)
        yield from stage.do(verb, words)


def _setting(word: str) -> tuple[str, Any]:
    key, _, value = word.partition("=")
    if key == "partition_assignment_strategy":
        return key, tuple(value.split(","))
    return key, int(value) if value.isdigit() else value


class _NoScatter:
    """Pauses are as configured."""

    def below(self, bound: int) -> int:
        return bound // 2

    def fork(self, purpose: str) -> "_NoScatter":
        return self


class _Stage:
    def __init__(self, settings: ConsumerSettings) -> None:
        self._member = ClassicMember(settings, _NoScatter())
        self._now_s = 0.0
        self._wake_at_s: float | None = None
        self._asked: dict[str, Any] = {}

    def do(self, verb: str, words: list[str]) -> Iterator[str]:
        match verb:
            case "wait":
                yield from self._wait(float(words[0]))
            case "show":
                member = self._member
                yield (
                    f"has {_parts(member.assignment)}, generation {member.metadata.generation_id} "
                    f"as {member.metadata.member_id or 'nobody'}{', rebalancing' * member.is_rebalancing}"
                )
            case _:
                yield from self._hear(self._event(verb, words))

    def _event(self, verb: str, words: list[str]) -> Event:
        match verb:
            case "topics":
                counts = dict(word.split("=") for word in words)
                return TopicsChanged({name: int(count) for name, count in counts.items()})
            case "subscribe":
                return Subscribed(frozenset(words))
            case "poll":
                return Polled()
            case "settled":
                return Settled()
            case "leave":
                return Leave(" ".join(words))
            case "leave-for-good":
                return Leave(" ".join(words), stays_static=False)
            case "fail":
                return Failed(self._asked[words[0]], NetworkFailed("cut"))
            case "answer":
                return self._answer(words[0], dict(word.split("=", 1) for word in words[1:]))
        raise AssertionError(f"there is no command {verb}")

    def _answer(self, api: str, fields: dict[str, str]) -> Answered:
        request = self._asked[api]
        error_code = ErrorCode[fields.get("error", "NONE")]
        generation_id = int(fields.get("generation", -1))
        match request:
            case JoinGroupRequest():
                protocol = fields.get("protocol", request.protocols[0].name)
                mine = next(offered.metadata for offered in request.protocols if offered.name == protocol)
                members = [
                    JoinGroupResponseMember(
                        member_id=member.split(":")[0], metadata=_subscription(member, generation_id) or mine
                    )
                    for member in fields.get("members", "").split(";")
                    if member
                ]
                return Answered(
                    request,
                    JoinGroupResponse(
                        error_code=error_code,
                        generation_id=generation_id,
                        protocol_type=fields.get("type", "consumer"),
                        protocol_name=protocol,
                        leader=fields.get("leader", ""),
                        skip_assignment="skip" in fields,
                        member_id=fields.get("member", request.member_id),
                        members=members,
                    ),
                )
            case SyncGroupRequest():
                assignment = write_assignment(Assignment(_partitions(fields["to"]))) if "to" in fields else b""
                return Answered(request, SyncGroupResponse(error_code=error_code, assignment=assignment))
            case HeartbeatRequest():
                return Answered(request, HeartbeatResponse(error_code=error_code))
            case LeaveGroupRequest():
                return Answered(request, LeaveGroupResponse(error_code=error_code))
        raise AssertionError(f"no answer to {request}")

    def _wait(self, seconds: float) -> Iterator[str]:
        began_s, until_s = self._now_s, self._now_s + seconds
        while self._wake_at_s is not None and self._wake_at_s <= until_s:
            self._now_s, self._wake_at_s = self._wake_at_s, None
            for line in self._hear(Tick()):
                yield f"{line}   after {self._now_s - began_s:g} s"
        self._now_s = until_s

    def _hear(self, event: Event) -> Iterator[str]:
        for effect in self._member.step(event, self._now_s):
            if isinstance(effect, WakeAt):
                assert effect.at_s > self._now_s, "it would be woken again and again"
                self._wake_at_s = effect.at_s
                continue
            if isinstance(effect, Ask):
                self._asked[type(effect.request).__name__.removesuffix("Request")] = effect.request
            yield _text(effect)


def _text(effect: Effect) -> str:
    match effect:
        case Ask(request):
            return _request_text(request)
        case ForgetCoordinator():
            return "ForgetCoordinator"
        case Revoke(partitions):
            return f"Revoke {_parts(partitions)}"
        case Lose(partitions):
            return f"Lose {_parts(partitions)}"
        case Assign(added):
            return f"Assign {_parts(added)}"
        case CountPartitions(topics):
            return f"CountPartitions {' '.join(sorted(topics))}"
        case Raise(error):
            return f"Raise {error}"
    raise AssertionError(f"no text for {effect}")


def _request_text(request: Any) -> str:
    match request:
        case JoinGroupRequest():
            offers = [_offer(offered.name, offered.metadata) for offered in request.protocols]
            why = f" because {request.reason!r}" if request.reason else ""
            return f"JoinGroup as {_who(request)} {'; '.join(offers)}{why}"
        case SyncGroupRequest():
            given = [
                f" {one.member_id}={_parts(read_assignment(one.assignment).partitions)}" for one in request.assignments
            ]
            return f"SyncGroup {request.generation_id} as {_who(request)}{''.join(given)}"
        case HeartbeatRequest():
            return f"Heartbeat {request.generation_id} as {_who(request)}"
        case LeaveGroupRequest():
            (member,) = request.members
            return f"LeaveGroup as {_who(member)} because {member.reason!r}"
    raise AssertionError(f"no text for {request}")


def _offer(name: str, metadata: bytes) -> str:
    said = read_subscription(metadata, None)
    owned = f" has {_parts(said.owned_partitions)} of {said.generation_id}" if said.owned_partitions else ""
    return f"{name}: {' '.join(said.topics)}{owned}"


def _who(request: Any) -> str:
    instance = f"@{request.group_instance_id}" if request.group_instance_id is not None else ""
    return f"{request.member_id or 'nobody'}{instance}"


def _parts(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(str(partition) for partition in sorted(partitions)) or "nothing"


def _partitions(text: str) -> list[TopicPartition]:
    return [
        TopicPartition(topic, int(index)) for topic, index in (part.rsplit("-", 1) for part in text.split(",") if part)
    ]


def _subscription(member: str, generation_id: int) -> bytes | None:
    """`id:topic,topic` or `id:topic,topic:owned,owned`; the id alone is the member itself."""
    _, *said = member.split(":")
    if not said:
        return None
    owned = _partitions(said[1]) if len(said) > 1 else []
    return write_subscription(
        Subscription(said[0].split(","), owned_partitions=owned, generation_id=generation_id - 1 if owned else -1)
    )
