"""Transcripts of a partition's leader and follower: events as commands, and the effects that came of each.

    # A leader alone commits what it has written.
    > lead replicas=1 isr=1
    > written 5
    high watermark 5

Broker 1 leads, or follows. Commands of a leader:

    > lead replicas=1,2,3 isr=1,2 [epoch=0] [end=0] [hw=0] [min_isr=1] [lag_ms=30000]
    > written OFFSET                  the leader's own replica counts up to here
    > fetch FOLLOWER OFFSET [epoch=E] [registered=E|none]
    > seen FOLLOWER                   its session fetches, and it lacked nothing until now
    > registered FOLLOWER EPOCH|none  its registration has changed; none: it is fenced
    > wait MS                         and check for lag when the leader asked for it
    > answer ERROR | answer partition_epoch=2     to the proposal made last
    > metadata replicas=… isr=… epoch=… partition_epoch=… [min_isr=N]
    > min_isr N

Of a follower, whose log is a list of epochs:

    > follow epoch=2 log=0,0,1 [hw=0] [start=0]             a log of three records, of epochs 0, 0 and 1
    > fetched hw=5 [start=0] [records=1,1] [diverging=EPOCH@OFFSET] [error=NAME] [asked=EPOCH@OFFSET]
    > offsets start=3 end=9 | offsets error=NAME
    > append-refused | > connection-failed | > leader epoch=3 | > wait MS

CORDWOOD_REWRITE_TRANSCRIPTS=1 writes down what happens now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cordwood.log.epochs import EpochStart, LeaderEpochs
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.replica import follower as following
from cordwood.replica import leader as leading
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

_BACKOFF_MS = 1_000
_BROKER = 1


def check(path: Path) -> None:
    said = path.read_text()
    happens = _played(said)
    if os.environ.get("CORDWOOD_REWRITE_TRANSCRIPTS"):
        path.write_text(happens)
    else:
        assert happens == said


def _played(script: str) -> str:
    stage: LeaderStage | FollowerStage | None = None
    lines: list[str] = []
    for line in script.splitlines():
        if not line.startswith(">"):
            if line.startswith("#") or not line:
                lines.append(line)
            continue
        lines.append(line)
        command = _parse(line)
        if command.name == "lead":
            stage = LeaderStage(command)
        elif command.name == "follow":
            stage = FollowerStage(command)
        else:
            assert stage is not None
            lines.extend(stage.do(command))
    return "\n".join(lines) + "\n"


class Command(NamedTuple):
    name: str
    words: list[str]
    fields: dict[str, str]

    def number(self, name: str, default: int) -> int:
        return int(self.fields.get(name, default))

    def numbers(self, name: str) -> tuple[int, ...]:
        return tuple(int(word) for word in self.fields.get(name, "").split(",") if word)

    def error(self) -> ErrorCode:
        return ErrorCode[self.fields.get("error", "NONE")]


def _parse(line: str) -> Command:
    name, *rest = line[1:].split()
    words = [word for word in rest if "=" not in word]
    return Command(name, words, dict(word.split("=", 1) for word in rest if "=" in word))


class LeaderStage:
    def __init__(self, command: Command) -> None:
        self.now_ms = 1_000_000
        self.settings = leading.ReplicationSettings(command.number("min_isr", 1), command.number("lag_ms", 30_000))
        self.proposal: leading.ProposeIsr | None = None
        end, high_watermark = command.number("end", 0), command.number("hw", 0)
        self.log_end = end
        self.state = _state(command)
        self.leader = leading.Leader(_BROKER, self.state, self.settings, end, high_watermark, self.now_ms)
        if end:
            self.leader.written(end, self.now_ms)

    def do(self, command: Command) -> list[str]:
        try:
            return [self._show(effect) for effect in self._effects(command)]
        except Refusal as refusal:
            return [f"refused {refusal.error.name}"]

    def _effects(self, command: Command) -> list[leading.Effect]:
        leader = self.leader
        match command.name:
            case "written":
                self.log_end = int(command.words[0])
                return leader.step(leading.Written(self.log_end), self.now_ms)
            case "fetch":
                replica, offset = (int(word) for word in command.words)
                epoch = command.number("epoch", 10 + replica)
                registered = command.fields.get("registered", str(10 + replica))
                event = leading.FollowerFetched(
                    replica, epoch, None if registered == "none" else int(registered), offset
                )
                return leader.step(event, self.now_ms)
            case "seen":
                return leader.step(leading.FollowerSeen(int(command.words[0]), self.now_ms), self.now_ms)
            case "registered":
                replica, registered = int(command.words[0]), command.words[1]
                changed = leading.RegistrationChanged(replica, None if registered == "none" else int(registered))
                return leader.step(changed, self.now_ms)
            case "wait":
                return self._wait(self.now_ms + int(command.words[0]))
            case "answer":
                assert self.proposal is not None
                error = ErrorCode[command.words[0]] if command.words else ErrorCode.NONE
                answer = leading.IsrAnswered(self.proposal, error, command.number("partition_epoch", -1))
                return leader.step(answer, self.now_ms)
            case "metadata":
                return self._metadata_changed(_state(command), command.number("min_isr", self._min_isr))
            case "min_isr":
                return self._metadata_changed(self.state, int(command.words[0]))
        raise AssertionError(command.name)

    @property
    def _min_isr(self) -> int:
        return self.settings.min_insync_replicas

    def _metadata_changed(self, state: PartitionState, min_isr: int) -> list[leading.Effect]:
        self.state, self.settings = state, self.settings._replace(min_insync_replicas=min_isr)
        return self.leader.step(leading.MetadataChanged(state, self.settings, self.log_end), self.now_ms)

    def _wait(self, until_ms: int) -> list[leading.Effect]:
        effects: list[leading.Effect] = []
        while (due_ms := self.leader.next_lag_check_ms(self.now_ms)) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            effects += self.leader.step(leading.LagChecked(), self.now_ms)
        self.now_ms = until_ms
        return effects

    def _show(self, effect: leading.Effect) -> str:
        if isinstance(effect, leading.HighWatermarkMoved):
            return f"high watermark {effect.offset}"
        self.proposal = effect
        members = " ".join(f"{member.broker_id}@{member.broker_epoch}" for member in effect.isr)
        return f"propose isr {members}, leader epoch {effect.leader_epoch}, partition epoch {effect.partition_epoch}"


def _state(command: Command) -> PartitionState:
    return PartitionState(
        replicas=command.numbers("replicas"),
        isr=command.numbers("isr"),
        leader=_BROKER,
        leader_epoch=command.number("epoch", 0),
        partition_epoch=command.number("partition_epoch", 0),
    )


class ListLog:
    """A log whose records are the epochs that they were written in."""

    def __init__(self, start_offset: int, epochs: tuple[int, ...], high_watermark: int) -> None:
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.epochs = list(epochs)

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.epochs)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        starts = LeaderEpochs()
        for offset, each in enumerate(self.epochs, self.start_offset):
            starts.assign(*EpochStart(each, offset))
        return starts.end_offset_for(epoch, self.end_offset)


class FollowerStage:
    def __init__(self, command: Command) -> None:
        self.now_ms = 1_000_000
        self.log = ListLog(command.number("start", 0), command.numbers("log"), command.number("hw", 0))
        self.follower = following.Follower(self.log, _BACKOFF_MS)
        self.done = self._done(following.LeaderChanged(command.number("epoch", 0)))
        self.asked = self.follower.next_fetch(self.now_ms)

    def do(self, command: Command) -> list[str]:
        shown, self.done = self.done, []
        if command.name == "wait":
            self.now_ms += int(command.words[0])
        else:
            shown += self._done(self._event(command))
        return [*shown, self._show_next()]

    def _event(self, command: Command) -> following.Event:
        match command.name:
            case "fetched":
                diverging = _pair(command.fields.get("diverging"))
                asked = self.asked
                assert asked is not None
                stale = _pair(command.fields.get("asked"))
                if stale is not None:
                    asked = asked._replace(current_leader_epoch=stale[0], fetch_offset=stale[1])
                return following.Fetched(
                    asked,
                    command.error(),
                    command.number("hw", -1),
                    command.number("start", 0),
                    bytes(command.numbers("records")),
                    diverging,
                )
            case "offsets":
                epoch = command.number("epoch", self.asked.current_leader_epoch if self.asked else 0)
                return following.LeaderOffsets(
                    epoch, command.error(), command.number("start", -1), command.number("end", -1)
                )
            case "append-refused":
                return following.AppendRefused(Refusal(ErrorCode.CORRUPT_MESSAGE, "damaged"))
            case "connection-failed":
                return following.ConnectionFailed()
            case "leader":
                return following.LeaderChanged(command.number("epoch", 0))
        raise AssertionError(command.name)

    def _done(self, event: following.Event) -> list[str]:
        return [self._do(effect) for effect in self.follower.step(event, self.now_ms)]

    def _do(self, effect: following.Effect) -> str:
        log = self.log
        match effect:
            case following.Append(records, leader_epoch):
                log.epochs += [epoch for epoch in bytes(records) if epoch <= leader_epoch]
                return f"append up to epoch {leader_epoch}"
            case following.Truncate(offset):
                del log.epochs[max(0, offset - log.start_offset) :]
                log.high_watermark = min(log.high_watermark, log.end_offset)
                return f"truncate to {offset}"
            case following.StartAt(offset):
                log.start_offset, log.epochs, log.high_watermark = offset, [], offset
                return f"start at {offset}"
            case following.SetHighWatermark(offset):
                log.high_watermark = min(offset, log.end_offset)
                return f"high watermark {log.high_watermark}"
            case following.AdvanceStart(offset):
                del log.epochs[: offset - log.start_offset]
                log.start_offset = offset
                return f"log start {offset}"
            case following.AskOffsets(leader_epoch):
                return f"ask for the offsets of the leader in epoch {leader_epoch}"

    def _show_next(self) -> str:
        fetch = self.follower.next_fetch(self.now_ms)
        if fetch is not None:
            self.asked = fetch
            lag = "" if self.follower.lag is None else f", lag {self.follower.lag}"
            return f"-> fetch {fetch.fetch_offset}, last epoch {fetch.last_fetched_epoch}{lag}"
        if self.follower.mode is following.FollowerMode.FETCHING:
            return f"-> fetch again in {self.follower.resumes_ms - self.now_ms} ms"
        return f"-> {self.follower.mode.value}"


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    epoch, _, offset = text.partition("@")
    return int(epoch), int(offset)
