"""Transcripts: one machine, commands for what happens to it, and what it does about it.

A line that starts with `> ` is a command; the lines below it, up to an empty one, are the effects in their order and
the state afterwards. `#` starts a comment. See transcripts/*.txt, and `COMMANDS` for the commands. Times are relative
to the start. Offsets with an epoch are written offset/epoch.
"""

from collections.abc import Callable
from typing import Any

from cordwood.raft.api import common
from cordwood.raft.config import QuorumConfig
from cordwood.raft.control_state import ControlState
from cordwood.raft.effects import (
    Append,
    Effect,
    Flush,
    InstallSnapshot,
    PersistQuorumState,
    Respond,
    Send,
    Truncate,
    WriteSnapshotPiece,
)
from cordwood.raft.election_state import ElectionState
from cordwood.raft.events import (
    BeginShutdown,
    Event,
    Flushed,
    LogCleaned,
    Propose,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    SnapshotTaken,
    Tick,
    UpgradeKRaftVersion,
)
from cordwood.raft.identity import Endpoint, Node, ReplicaKey, VersionRange
from cordwood.raft.log import BOOTSTRAP_SNAPSHOT, LogState, OffsetAndEpoch
from cordwood.raft.machine import RaftMachine
from cordwood.raft.replica import ReplicaConfig, version_record, voters_record
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.wire.codec import encode
from cordwood.wire.control import ControlType, control_batch
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    remove_raft_voter,
    update_raft_voter,
)
from cordwood.wire.messages import fetch as fetch_messages
from cordwood.wire.messages import fetch_snapshot as snapshot_messages
from cordwood.wire.messages import vote as vote_messages
from cordwood.wire.messages.api_versions import ApiVersionsResponse, SupportedFeatureKey
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from cordwood.wire.schema import Request, Response
from tests.raft.raft_memory_log import Content, MemoryLog, StoredBatch, snapshot_data
from tests.raft.raft_sim import CLUSTER_ID, LISTENER, filled
from tests.raft.raft_transcript_text import describe, describe_state

START_MS = 1_000_000


class Steady:
    """No jitter: election timeouts are the shortest, and the first bootstrap server is asked."""

    def below(self, bound: int) -> int:
        return 0

    def fork(self, purpose: str) -> "Steady":
        return self


def voter(node_id: int) -> VoterNode:
    key = ReplicaKey(node_id, bytes(15) + bytes([node_id]))
    return VoterNode(key, {LISTENER: Endpoint(f"host{node_id}", 9093)}, VersionRange(0, 1))


def directory_of(node_id: int) -> bytes:
    return voter(node_id).key.directory_id if node_id >= 0 else bytes(16)


def position(text: str) -> OffsetAndEpoch:
    offset, _, epoch = text.partition("/")
    return OffsetAndEpoch(int(offset), int(epoch))


class Words:
    """A command's arguments: words, and values by name."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        self.words = [part for part in parts if "=" not in part]
        self.values = dict(part.split("=", 1) for part in parts if "=" in part)

    def number(self, name: str, default: int = 0) -> int:
        return int(self.values.get(name, default))

    def numbers(self, name: str) -> list[int]:
        text = self.values.get(name, "")
        return [int(part) for part in text.split(",") if part]

    def position(self, name: str, default: str = "0/0") -> OffsetAndEpoch:
        return position(self.values.get(name, default))

    def has(self, word: str) -> bool:
        return word in self.words


class Stage:
    """The machine on which a transcript is played, and the part of the shell that it needs."""

    def __init__(self) -> None:
        self.now = START_MS
        self.log = MemoryLog()
        self.quorum_state: bytes | None = None
        self.sent: dict[int, Send] = {}
        self.requests = 0
        self.settings: Words = Words("")

    @property
    def state(self) -> type[object]:
        return type(self.machine.state)

    def play(self, line: str) -> list[str]:
        name, _, rest = line.partition(" ")
        effects = COMMANDS[name](self, Words(rest))
        self._perform(effects)
        return [*(describe(effect) for effect in effects), describe_state(self.machine)]

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case PersistQuorumState(data):
                    self.quorum_state = data
                case Append(batches=batches):
                    self.log.append(batches)
                case Truncate(offset):
                    self.log.truncate(offset)
                case Send():
                    self.sent[effect.node.id] = effect
                case WriteSnapshotPiece(snapshot_id, where, data):
                    self.log.write_snapshot(snapshot_id, where, data)
                case InstallSnapshot(snapshot_id):
                    self.log.install_snapshot(snapshot_id)
                case Flush(end_offset):
                    self.flushing = end_offset
                case Respond(records=records) if records is not None:
                    filled(effect, self.log)

    # Starting

    def start(self, words: Words) -> list[Effect]:
        """start id=1 voters=1,2,3 [directory=1] [static] [broker] [auto-join] [log=epoch*records,…]
        [snapshot=offset/epoch] [election=epoch:leader:voted] [bootstrap=1,2]"""
        self.settings = words
        voters = VoterSet(voter(number) for number in words.numbers("voters"))
        content = Content()
        if not words.has("static") and len(voters):
            formatted = [version_record(1), voters_record(voters)]
            content = Content(snapshots={BOOTSTRAP_SNAPSHOT: snapshot_data(formatted, 0)})
        if "snapshot" in words.values:
            snapshot_id = words.position("snapshot")
            data = snapshot_data([version_record(1), voters_record(voters)], snapshot_id.epoch)
            content = Content(snapshot_id.offset, (), {snapshot_id: data})
        self.log = MemoryLog(Content(content.start_offset, self._batches(content.start_offset), content.snapshots))
        if "election" in words.values:
            epoch, leader, voted = words.values["election"].split(":")
            election = ElectionState(
                int(epoch),
                int(leader) if leader else None,
                voter(int(voted)).key if voted else None,
            )
            self.quorum_state = election.encode(0 if words.has("static") else 1, voters.ids)
        return self._boot()

    def _batches(self, start_offset: int) -> tuple[StoredBatch, ...]:
        batches, offset = [], start_offset
        for part in self.settings.values.get("log", "").split(","):
            if part:
                epoch, _, count = part.partition("*")
                data = data_batch(offset, offset + int(count or 1), int(epoch))
                batches.append(StoredBatch(offset, offset + int(count or 1), int(epoch), data))
                offset += int(count or 1)
        return tuple(batches)

    def restart(self, words: Words) -> list[Effect]:
        """restart: a clean stop or a crash that lost nothing"""
        return self._boot()

    def _boot(self) -> list[Effect]:
        words = self.settings
        ids = words.numbers("voters")
        directory = voter(words.number("directory", self._id)).key.directory_id
        is_static = words.has("static")
        static = VoterSet.static(LISTENER, {number: Endpoint(f"host{number}", 9093) for number in ids})
        bootstrap = [
            Node(number if is_static else -2 - index, f"host{number}", 9093)
            for index, number in enumerate(words.numbers("bootstrap") or ids)
        ]
        config = ReplicaConfig(
            CLUSTER_ID,
            voter(words.number("id", 1))._replace(key=ReplicaKey(self._id, directory)),
            LISTENER,
            bootstrap,
            QuorumConfig(auto_join_enable=words.has("auto-join")),
            can_become_voter=not words.has("broker"),
        )
        election = ElectionState()
        if self.quorum_state is not None:
            election = ElectionState.decode("quorum-state", self.quorum_state)
        control = ControlState.load(self.log, static if is_static else None)
        self.machine = RaftMachine(config, LogState.of(self.log), control, election, Steady())
        return self.machine.start(self.now)

    # Events

    def step(self, event: Event) -> list[Effect]:
        return self.machine.step(event, self.now)

    def tick(self, words: Words) -> list[Effect]:
        """tick [ms]: lets time pass, up to the machine's deadline or by so many milliseconds"""
        if words.words:
            self.now += int(words.words[0])
        else:
            assert self.machine.deadline_ms is not None
            self.now = self.machine.deadline_ms
        return self.step(Tick())

    def flushed(self, words: Words) -> list[Effect]:
        """flushed [offset]: the fsync in progress is done"""
        return self.step(Flushed(int(words.words[0]) if words.words else self.flushing))

    def propose(self, words: Words) -> list[Effect]:
        """propose value…"""
        return self.step(Propose(1, words.number("epoch", self.machine.epoch), [w.encode() for w in words.words]))

    def upgrade(self, words: Words) -> list[Effect]:
        """upgrade version=1 [validate]"""
        event = UpgradeKRaftVersion(1, self.machine.epoch, words.number("version", 1), words.has("validate"))
        return self.step(event)

    def snapshot(self, words: Words) -> list[Effect]:
        """snapshot offset/epoch: the state machine made one"""
        snapshot_id = position(words.words[0])
        voters = self.machine.control.voters_at(snapshot_id.offset - 1)
        assert voters is not None
        data = snapshot_data([version_record(1), voters_record(voters)], snapshot_id.epoch)
        self.log.add_snapshot(snapshot_id, data)
        return self.step(SnapshotTaken(snapshot_id, len(data)))

    def clean(self, words: Words) -> list[Effect]:
        """clean start=offset"""
        start = words.number("start")
        return self.step(LogCleaned(start, self.log.clean(start)))

    def resign(self, words: Words) -> list[Effect]:
        return self.step(Resign(words.number("epoch", self.machine.epoch)))

    def shutdown(self, words: Words) -> list[Effect]:
        return self.step(BeginShutdown(words.number("timeout", 5000)))

    # Requests

    def _receive(self, request: Request[Any], words: Words) -> list[Effect]:
        self.requests += 1
        version = words.number("version", type(request).versions.high)
        encode(request, type(request).versions.high)
        return self.step(RequestReceived(self.requests, request, version, LISTENER))

    def vote(self, words: Words) -> list[Effect]:
        """vote from=2 epoch=1 [end=0/0] [pre] [voter=1] [directory=1] [cluster=…]"""
        end = words.position("end")
        partition = vote_messages.RequestPartitionData(
            partition_index=words.number("partition"),
            replica_epoch=words.number("epoch"),
            replica_id=words.number("from"),
            replica_directory_id=voter(words.number("from")).key.directory_id
            if words.number("from") >= 0
            else bytes(16),
            voter_directory_id=voter(words.number("directory", words.number("voter", self._id))).key.directory_id,
            last_offset=end.offset,
            last_offset_epoch=end.epoch,
            pre_vote=words.has("pre"),
        )
        topic = vote_messages.RequestTopicData(topic_name=common.TOPIC, partitions=[partition])
        request = vote_messages.VoteRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID), voter_id=words.number("voter", self._id), topics=[topic]
        )
        return self._receive(request, words)

    @property
    def _id(self) -> int:
        return self.settings.number("id", 1)

    def begin(self, words: Words) -> list[Effect]:
        """begin from=2 epoch=1 [voter=1] [directory=1]: BeginQuorumEpoch"""
        partition = begin_quorum_epoch.RequestPartitionData(
            voter_directory_id=voter(words.number("directory", self._id)).key.directory_id,
            leader_id=words.number("from"),
            leader_epoch=words.number("epoch"),
        )
        topic = begin_quorum_epoch.RequestTopicData(topic_name=common.TOPIC, partitions=[partition])
        where = begin_quorum_epoch.LeaderEndpoint(name=LISTENER, host=f"host{words.number('from')}", port=9093)
        request = begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID),
            voter_id=words.number("voter", self._id),
            topics=[topic],
            leader_endpoints=[where],
        )
        return self._receive(request, words)

    def end(self, words: Words) -> list[Effect]:
        """end from=2 epoch=1 successors=3,1: EndQuorumEpoch"""
        candidates = [
            end_quorum_epoch.ReplicaInfo(candidate_id=number, candidate_directory_id=voter(number).key.directory_id)
            for number in words.numbers("successors")
        ]
        partition = end_quorum_epoch.RequestPartitionData(
            leader_id=words.number("from"), leader_epoch=words.number("epoch"), preferred_candidates=candidates
        )
        topic = end_quorum_epoch.RequestTopicData(topic_name=common.TOPIC, partitions=[partition])
        where = end_quorum_epoch.LeaderEndpoint(name=LISTENER, host=f"host{words.number('from')}", port=9093)
        request = end_quorum_epoch.EndQuorumEpochRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID), topics=[topic], leader_endpoints=[where]
        )
        return self._receive(request, words)

    def fetch(self, words: Words) -> list[Effect]:
        """fetch from=2 epoch=1 at=offset/epoch [hw=-1] [wait=500] [directory=2]"""
        at = words.position("at")
        sender = words.number("from")
        partition = fetch_messages.FetchPartition(
            partition=words.number("partition"),
            current_leader_epoch=words.number("epoch", self.machine.epoch),
            fetch_offset=at.offset,
            last_fetched_epoch=at.epoch,
            replica_directory_id=directory_of(words.number("directory", sender)),
            high_watermark=words.number("hw", -1),
        )
        topic = fetch_messages.FetchTopic(topic_id=common.TOPIC_ID, partitions=[partition])
        request = fetch_messages.FetchRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID),
            replica_state=fetch_messages.ReplicaState(replica_id=sender),
            max_wait_ms=words.number("wait", 500),
            max_bytes=1 << 20,
            topics=[topic],
        )
        return self._receive(request, words)

    def fetch_snapshot(self, words: Words) -> list[Effect]:
        """fetch-snapshot from=2 epoch=1 snapshot=offset/epoch position=0"""
        snapshot_id = words.position("snapshot")
        partition = snapshot_messages.RequestPartitionSnapshot(
            current_leader_epoch=words.number("epoch", self.machine.epoch),
            snapshot_id=snapshot_messages.RequestSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
            position=words.number("position"),
            replica_directory_id=voter(words.number("from")).key.directory_id,
        )
        topic = snapshot_messages.RequestTopicSnapshot(
            name=words.values.get("topic", common.TOPIC), partitions=[partition]
        )
        request = snapshot_messages.FetchSnapshotRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID),
            replica_id=words.number("from"),
            max_bytes=100,
            topics=[topic],
        )
        return self._receive(request, words)

    def describe(self, words: Words) -> list[Effect]:
        """describe [topic=…]: DescribeQuorum"""
        partition = describe_quorum.RequestPartitionData(partition_index=0)
        name = words.values.get("topic", common.TOPIC)
        topic = describe_quorum.RequestTopicData(topic_name=name, partitions=[partition])
        return self._receive(describe_quorum.DescribeQuorumRequest(topics=[topic]), words)

    def add_voter(self, words: Words) -> list[Effect]:
        """add-voter 4 [at-once] [no-listener]"""
        number = int(words.words[0])
        name = "OTHER" if words.has("no-listener") else LISTENER
        request = add_raft_voter.AddRaftVoterRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID),
            timeout_ms=1000,
            voter_id=number,
            voter_directory_id=voter(number).key.directory_id,
            listeners=[add_raft_voter.Listener(name=name, host=f"host{number}", port=9093)],
            ack_when_committed=not words.has("at-once"),
        )
        return self._receive(request, words)

    def remove_voter(self, words: Words) -> list[Effect]:
        """remove-voter 2 [directory=2]"""
        number = int(words.words[0])
        request = remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=words.values.get("cluster", CLUSTER_ID),
            voter_id=number,
            voter_directory_id=voter(words.number("directory", number)).key.directory_id,
        )
        return self._receive(request, words)

    def update_voter(self, words: Words) -> list[Effect]:
        """update-voter 2 [port=9094] [versions=0,1]"""
        number = int(words.words[0])
        low, high = words.numbers("versions") or [0, 1]
        request = update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            current_leader_epoch=words.number("epoch", self.machine.epoch),
            voter_id=number,
            voter_directory_id=voter(number).key.directory_id,
            listeners=[
                update_raft_voter.Listener(name=LISTENER, host=f"host{number}", port=words.number("port", 9093))
            ],
            k_raft_version_feature=update_raft_voter.KRaftVersionFeature(
                min_supported_version=low, max_supported_version=high
            ),
        )
        return self._receive(request, words)

    # Responses

    def answer(self, words: Words) -> list[Effect]:
        """answer 2 [error=NAME] [epoch=1] [leader=2] and what the request asks for: granted, hw=3, records=0..2/1,
        diverging=2/1, snapshot=5/1, size=…, position=…, versions=0,1"""
        sent = self.sent[int(words.words[0])]
        error = ErrorCode[words.values.get("error", "NONE")]
        epoch, leader = words.number("epoch", self.machine.epoch), words.number("leader", -1)
        kind = type(sent.request).__name__.removesuffix("Request")
        response = getattr(self, f"_{kind}")(words, error, epoch, leader)
        return self.step(ResponseReceived(sent.correlation_id, response))

    def fail(self, words: Words) -> list[Effect]:
        """fail 2 [error=UNSUPPORTED_VERSION]: no answer will come"""
        sent = self.sent[int(words.words[0])]
        error = ErrorCode[words.values.get("error", "NETWORK_EXCEPTION")]
        return self.step(RequestFailed(sent.correlation_id, error))

    def _nodes(self, kind: type[Any], leader: int) -> list[Any]:
        return [kind(node_id=leader, host=f"host{leader}", port=9093)] if leader >= 0 else []

    def _Vote(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        partition = vote_messages.ResponsePartitionData(
            error_code=error, leader_id=leader, leader_epoch=epoch, vote_granted=words.has("granted")
        )
        topic = vote_messages.ResponseTopicData(topic_name=common.TOPIC, partitions=[partition])
        nodes = self._nodes(vote_messages.NodeEndpoint, leader)
        return vote_messages.VoteResponse(topics=[topic], node_endpoints=nodes)

    def _BeginQuorumEpoch(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        partition = begin_quorum_epoch.ResponsePartitionData(error_code=error, leader_id=leader, leader_epoch=epoch)
        topic = begin_quorum_epoch.ResponseTopicData(topic_name=common.TOPIC, partitions=[partition])
        nodes = self._nodes(begin_quorum_epoch.NodeEndpoint, leader)
        return begin_quorum_epoch.BeginQuorumEpochResponse(topics=[topic], node_endpoints=nodes)

    def _EndQuorumEpoch(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        partition = end_quorum_epoch.ResponsePartitionData(error_code=error, leader_id=leader, leader_epoch=epoch)
        topic = end_quorum_epoch.ResponseTopicData(topic_name=common.TOPIC, partitions=[partition])
        nodes = self._nodes(end_quorum_epoch.NodeEndpoint, leader)
        return end_quorum_epoch.EndQuorumEpochResponse(topics=[topic], node_endpoints=nodes)

    def _Fetch(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        partition = fetch_messages.PartitionData(
            error_code=error,
            high_watermark=words.number("hw", -1),
            current_leader=fetch_messages.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
            records=b"".join(records(part) for part in words.values.get("records", "").split(",") if part),
        )
        if "diverging" in words.values:
            end = words.position("diverging")
            partition.diverging_epoch = fetch_messages.EpochEndOffset(end_offset=end.offset, epoch=end.epoch)
        if "snapshot" in words.values:
            end = words.position("snapshot")
            partition.snapshot_id = fetch_messages.SnapshotId(end_offset=end.offset, epoch=end.epoch)
        topic = fetch_messages.FetchableTopicResponse(topic_id=common.TOPIC_ID, partitions=[partition])
        nodes = self._nodes(fetch_messages.NodeEndpoint, leader)
        return fetch_messages.FetchResponse(responses=[topic], node_endpoints=nodes)

    def _FetchSnapshot(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        snapshot_id = words.position("snapshot")
        voters = VoterSet(voter(number) for number in words.numbers("voters"))
        data = snapshot_data([version_record(1), voters_record(voters)], snapshot_id.epoch)
        where = words.number("position")
        end = min(len(data), where + words.number("bytes", len(data)))
        partition = snapshot_messages.ResponsePartitionSnapshot(
            error_code=error,
            snapshot_id=snapshot_messages.ResponseSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
            current_leader=snapshot_messages.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
            size=len(data),
            position=where,
            unaligned_records=data[where:end],
        )
        topic = snapshot_messages.ResponseTopicSnapshot(name=common.TOPIC, partitions=[partition])
        return snapshot_messages.FetchSnapshotResponse(topics=[topic])

    def _ApiVersions(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        low, high = words.numbers("versions") or [0, 1]
        feature = SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
        return ApiVersionsResponse(error_code=error, supported_features=[feature])

    def _AddRaftVoter(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        return add_raft_voter.AddRaftVoterResponse(error_code=error)

    def _RemoveRaftVoter(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        return remove_raft_voter.RemoveRaftVoterResponse(error_code=error)

    def _UpdateRaftVoter(self, words: Words, error: ErrorCode, epoch: int, leader: int) -> Response:  # noqa: N802
        current = update_raft_voter.CurrentLeader(leader_id=leader, leader_epoch=epoch)
        return update_raft_voter.UpdateRaftVoterResponse(error_code=error, current_leader=current)


def data_batch(base_offset: int, end_offset: int, epoch: int) -> bytes:
    values = [Record(offset, 0, None, f"{offset}@{epoch}".encode()) for offset in range(base_offset, end_offset)]
    return bytes(encode_batch(values, leader_epoch=epoch))


def records(text: str) -> bytes:
    """A batch as the leader sends it: `3..5/2`, or `3:voters=1,2/2` (with `+` for `,`) for a voters record at 3."""
    where, _, epoch = text.partition("/")
    if ":" in where:
        offset, _, ids = where.partition(":")
        voters = VoterSet(voter(int(number)) for number in ids.split("+"))
        contents: list[tuple[ControlType, bytes]] = [voters_record(voters)]
        return bytes(control_batch(contents, base_offset=int(offset), timestamp=0, leader_epoch=int(epoch)))
    first, _, end = where.partition("..")
    return data_batch(int(first), int(end), int(epoch))


COMMANDS: dict[str, Callable[[Stage, Words], list[Effect]]] = {
    "start": Stage.start,
    "restart": Stage.restart,
    "tick": Stage.tick,
    "flushed": Stage.flushed,
    "propose": Stage.propose,
    "upgrade": Stage.upgrade,
    "snapshot": Stage.snapshot,
    "clean": Stage.clean,
    "resign": Stage.resign,
    "shutdown": Stage.shutdown,
    "vote": Stage.vote,
    "begin": Stage.begin,
    "end": Stage.end,
    "fetch": Stage.fetch,
    "fetch-snapshot": Stage.fetch_snapshot,
    "describe": Stage.describe,
    "add-voter": Stage.add_voter,
    "remove-voter": Stage.remove_voter,
    "update-voter": Stage.update_voter,
    "answer": Stage.answer,
    "fail": Stage.fail,
}


def play(text: str) -> str:
    """The transcript with what really happened below each command."""
    stage, lines, skips = Stage(), list[str](), False
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *stage.play(line.removeprefix("> "))]
            skips = True
        elif not line.strip() or line.startswith("#"):
            lines.append(line)
            skips = False
        elif not skips:
            lines.append(line)
    return "\n".join(lines) + "\n"
