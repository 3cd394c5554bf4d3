"""Several machines, a network and disks, all in memory and driven by one seed."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cordwood.raft.config import QuorumConfig
from cordwood.raft.control_state import ControlState
from cordwood.raft.effects import (
    Append,
    CommitUpTo,
    DiscardSnapshot,
    Effect,
    Flush,
    InstallSnapshot,
    LeadershipChanged,
    LogSlice,
    PersistQuorumState,
    ProposalAppended,
    ProposalRefused,
    Respond,
    Send,
    ShutdownCompleted,
    SnapshotSlice,
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
    ResponseReceived,
    SnapshotTaken,
    Tick,
)
from cordwood.raft.exceptions import InconsistentQuorum
from cordwood.raft.identity import Endpoint, Node, ReplicaKey, VersionRange
from cordwood.raft.log import BOOTSTRAP_SNAPSHOT, LogState, OffsetAndEpoch
from cordwood.raft.machine import RaftMachine
from cordwood.raft.replica import ReplicaConfig, version_record, voters_record
from cordwood.raft.states import Leader
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.codec import decode, encode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from cordwood.wire.schema import Message, Request, Response
from tests.raft.raft_memory_log import Content, MemoryLog, snapshot_data

LISTENER = "CONTROLLER"
CLUSTER_ID = "cluster"


class Violation(AssertionError):
    """The quorum broke one of its promises."""


@dataclass
class Judge:
    """The invariants."""

    leaders: dict[int, ReplicaKey] = field(default_factory=dict)
    # By base offset: end, epoch and bytes of each committed batch.
    committed: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    high_watermark: int = 0

    def saw_leader(self, host: "Host", leader: Leader) -> None:
        key = self.leaders.setdefault(leader.epoch, host.local.key)
        if key != host.local.key:
            raise Violation(f"epoch {leader.epoch} has two leaders, {key} and {host.local.key}")

    def became_leader(self, host: "Host") -> None:
        """Leader completeness (Raft 5.4.3)."""
        log = host.log.content
        own = {batch.base_offset: batch.data for batch in log.batches}
        for base_offset, (end_offset, _, data) in self.committed.items():
            if base_offset >= log.start_offset and own.get(base_offset) != data:
                raise Violation(f"leader {host.id} lacks the committed batch {base_offset} to {end_offset}")

    def persisted(self, host: "Host", before: ElectionState, after: ElectionState) -> None:
        if after.epoch < before.epoch:
            raise Violation(f"the epoch of {host.id} went from {before.epoch} back to {after.epoch}")

    def saw_commit(self, host: "Host", before: int, high_watermark: int) -> None:
        """State machine safety (Raft 5.4.3): all apply the same batch at an offset."""
        if high_watermark > host.log.end_offset:
            raise Violation(f"{host.id} commits up to {high_watermark} and has a log up to {host.log.end_offset}")
        for batch in host.log.content.batches:
            if before <= batch.base_offset and batch.next_offset <= high_watermark:
                mine = (batch.next_offset, batch.epoch, batch.data)
                known = self.committed.setdefault(batch.base_offset, mine)
                if known != mine:
                    raise Violation(f"{host.id} commits another batch at offset {batch.base_offset} than others")
        self.high_watermark = max(self.high_watermark, high_watermark)

    def saw_leader_commit(self, host: "Host", is_first: bool, high_watermark: int) -> None:
        if is_first and high_watermark < self.high_watermark:
            raise Violation(f"leader {host.id} exposes {high_watermark} after {self.high_watermark} was")

    def saw_truncation(self, host: "Host", offset: int) -> None:
        if offset < host.applied:
            raise Violation(f"{host.id} truncates to {offset}, below its high watermark {host.applied}")

    def compare_logs(self, hosts: list["Host"]) -> None:
        """Log matching (Raft 5.3): the same epoch at an offset means the same log up to there."""
        for one in hosts:
            for other in hosts:
                theirs = {batch.base_offset: batch for batch in other.log.content.batches}
                is_shared_later = False
                for batch in reversed(one.log.content.batches):
                    found = theirs.get(batch.base_offset)
                    if found is None:
                        continue
                    if found == batch:
                        is_shared_later = True
                    elif is_shared_later:
                        raise Violation(f"logs {one.id} and {other.id} differ at {batch.base_offset}, not after it")


@dataclass
class Host:
    """A machine's computer: its disk, and the process on it while it runs."""

    id: int
    local: VoterNode
    log: MemoryLog
    can_become_voter: bool
    quorum_state: bytes | None = None
    machine: RaftMachine | None = None
    incarnation: int = 0
    applied: int = 0
    led_epoch: int = -1
    is_leader_told: bool = False
    last_leader_commit_epoch: int = -1


@dataclass
class World:
    """`seed` decides everything. Voters are ids from 1 up; hosts above them are observers."""

    seed: int
    voter_count: int
    observer_count: int = 1
    is_dynamic: bool = True
    config: QuorumConfig | None = None
    trace: Callable[[str], None] | None = None
    # The recipient of an answer: the requesting host, or None for a client.
    _waiting: dict[int, tuple[int, Host | None, int, Callable[[bytes, type[Response]], None]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.random = SeededRandom(self.seed)
        self.now = 1_000_000
        self.judge = Judge()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._request_ids = count(1)
        self._proposals = count(1)
        # Directed pairs of hosts between which nothing passes.
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0
        self.duplication = 0
        self.crash_within_effects = 0
        self.longest_delay_ms = 10
        # By proposal: its last offset, once its leader has seen it committed.
        self.appended: dict[int, tuple[int, int]] = {}
        self.acknowledged: dict[int, int] = {}
        self.config = self.config or QuorumConfig()
        self.hosts: dict[int, Host] = {}
        voters = [self._voter(number) for number in range(1, self.voter_count + 1)]
        for number in range(1, self.voter_count + self.observer_count + 1):
            local = self._voter(number)
            content = Content()
            if self.is_dynamic and number <= self.voter_count:
                formatted = [version_record(1), voters_record(VoterSet(voters))]
                content = Content(snapshots={BOOTSTRAP_SNAPSHOT: snapshot_data(formatted, 0)})
            # The last observer is a broker, which never becomes a voter.
            is_broker = number > self.voter_count + 1
            self.hosts[number] = Host(number, local, MemoryLog(content), not is_broker)
        for host in self.hosts.values():
            self.start(host)

    @staticmethod
    def _voter(number: int) -> VoterNode:
        key = ReplicaKey(number, bytes(15) + bytes([100 + number]))
        return VoterNode(key, {LISTENER: Endpoint(f"host{number}", 9093)}, VersionRange(0, 1))

    # Processes

    def start(self, host: Host) -> None:
        assert host.machine is None
        # With dynamic voters also the controller that is none yet, because it may become the only one.
        known = range(1, self.voter_count + (2 if self.is_dynamic else 1))
        addresses = {number: Endpoint(f"host{number}", 9093) for number in known}
        static = None if self.is_dynamic else VoterSet.static(LISTENER, addresses)
        bootstrap = [
            Node(-1 - number if self.is_dynamic else number, *address) for number, address in addresses.items()
        ]
        assert self.config is not None
        config = ReplicaConfig(
            CLUSTER_ID, host.local, LISTENER, bootstrap, self.config, can_become_voter=host.can_become_voter
        )
        election = ElectionState()
        if host.quorum_state is not None:
            election = ElectionState.decode("quorum-state", host.quorum_state)
        host.incarnation += 1
        host.led_epoch, host.is_leader_told, host.last_leader_commit_epoch = -1, False, -1
        latest = LogState.of(host.log).latest_snapshot
        host.applied = latest.offset if latest is not None else 0
        control = ControlState.load(host.log, static)
        host.machine = RaftMachine(config, LogState.of(host.log), control, election, self.random)
        self._note(host, "starts")
        self._perform(host, host.machine.start(self.now))

    def restart(self, host: Host) -> None:
        """Starts a host, unless it runs already."""
        if host.machine is None:
            self.start(host)

    def crash(self, host: Host) -> None:
        if host.machine is not None:
            self._note(host, "crashes")
            host.machine = None
            host.log.crash(self.random)

    def step(self, host: Host, event: Event) -> None:
        if host.machine is None:
            return
        before = (host.machine.state.name, host.machine.epoch)
        try:
            effects = host.machine.step(event, self.now)
        except InconsistentQuorum as error:
            raise Violation(f"{host.id}: {error}") from error
        after = (host.machine.state.name, host.machine.epoch)
        if before != after:
            self._note(host, f"{after} by {type(event).__name__}")
        self._perform(host, effects)

    # Effects

    def _perform(self, host: Host, effects: list[Effect]) -> None:
        for effect in effects:
            if self.crash_within_effects and self.random.below(self.crash_within_effects) == 0:
                self.crash(host)
                self.later(self.random.below(3000), lambda: self.restart(host))
                return
            self._perform_one(host, effect)
        machine = host.machine
        if machine is None:
            return
        if isinstance(machine.state, Leader):
            self.judge.saw_leader(host, machine.state)
            if host.led_epoch != machine.epoch:
                host.led_epoch = machine.epoch
                self.judge.became_leader(host)
        if machine.deadline_ms is not None:
            self._tick_at(host, machine.deadline_ms)

    def _tick_at(self, host: Host, deadline_ms: int) -> None:
        incarnation = host.incarnation

        def tick() -> None:
            is_same = host.incarnation == incarnation
            if is_same and host.machine is not None and host.machine.deadline_ms == deadline_ms:
                self.step(host, Tick())

        self.later(max(deadline_ms - self.now, 0), tick)

    def _perform_one(self, host: Host, effect: Effect) -> None:
        match effect:
            case PersistQuorumState(data):
                before = ElectionState.decode("", host.quorum_state) if host.quorum_state else ElectionState()
                self.judge.persisted(host, before, ElectionState.decode("", data))
                host.quorum_state = data
            case Append(batches=batches):
                host.log.append(batches)
            case Truncate(offset):
                self.judge.saw_truncation(host, offset)
                host.log.truncate(offset)
            case Flush(end_offset):
                self._flush(host, end_offset)
            case WriteSnapshotPiece(snapshot_id, position, data):
                host.log.write_snapshot(snapshot_id, position, data)
            case InstallSnapshot(snapshot_id):
                host.log.install_snapshot(snapshot_id)
                host.applied = max(host.applied, snapshot_id.offset)
            case Send():
                self._send(host, effect)
            case Respond():
                self._respond(host, effect)
            case CommitUpTo(high_watermark):
                self._commit(host, high_watermark)
            case LeadershipChanged(leader_id):
                host.is_leader_told = leader_id == host.id
            case ProposalAppended(proposal_id, last_offset):
                assert host.machine is not None
                self.appended[proposal_id] = (host.machine.epoch, last_offset)
            case ShutdownCompleted():
                self._note(host, "stopped")
                host.machine = None
                host.log.end_flush(host.log.begin_flush())
                self.later(self.random.below(3000), lambda: self.restart(host))
            case DiscardSnapshot() | ProposalRefused():
                pass

    def _flush(self, host: Host, end_offset: int) -> None:
        incarnation, last_write = host.incarnation, host.log.begin_flush()

        def done() -> None:
            if host.incarnation == incarnation and host.machine is not None:
                host.log.end_flush(last_write)
                self.step(host, Flushed(end_offset))

        is_slow = self.random.below(20) == 0
        self.later(self.random.below(400 if is_slow else 10), done)

    def _commit(self, host: Host, high_watermark: int) -> None:
        machine = host.machine
        assert machine is not None
        self.judge.saw_commit(host, host.applied, high_watermark)
        if isinstance(machine.state, Leader):
            is_first = host.last_leader_commit_epoch != machine.epoch
            host.last_leader_commit_epoch = machine.epoch
            self.judge.saw_leader_commit(host, is_first, high_watermark)
            for proposal_id, (epoch, offset) in self.appended.items():
                if epoch == machine.epoch and offset < high_watermark:
                    self.acknowledged[proposal_id] = offset
        if high_watermark > host.applied:
            host.applied = high_watermark

    # Network

    def _send(self, host: Host, effect: Send) -> None:
        target = self.hosts[int(effect.node.host.removeprefix("host"))]
        version = 4 if isinstance(effect.request, ApiVersionsRequest) else type(effect.request).versions.high
        data = encode(effect.request, version)
        incarnation = host.incarnation

        def answer(response_data: bytes, kind: type[Response]) -> None:
            if host.incarnation == incarnation:
                self.step(host, ResponseReceived(effect.correlation_id, decode(kind, version, response_data)))

        def fail() -> None:
            if host.incarnation == incarnation:
                self.step(host, RequestFailed(effect.correlation_id, ErrorCode.BROKER_NOT_AVAILABLE))

        def arrive() -> None:
            if target.machine is None:
                self._transmit(target, host, fail)
                return
            request = decode(type(effect.request), version, data)
            request_id = next(self._request_ids)
            self._waiting[request_id] = (target.incarnation, host, version, answer)
            if isinstance(request, ApiVersionsRequest):
                features = [SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
                self._respond(target, Respond(request_id, ApiVersionsResponse(supported_features=features)))
            else:
                self.step(target, RequestReceived(request_id, request, version, LISTENER))

        self._transmit(host, target, arrive)

    def _respond(self, host: Host, effect: Respond) -> None:
        waiting = self._waiting.pop(effect.request_id, None)
        if waiting is None:
            return
        _, target, version, answer = waiting
        response = filled(effect, host.log)
        data, kind = encode(response, version), type(response)
        if target is None:
            answer(data, kind)
        else:
            self._transmit(host, target, lambda: answer(data, kind))

    def _transmit(self, source: Host, target: Host, arrive: Callable[[], None]) -> None:
        copies = 1 + (self.duplication > 0 and self.random.below(self.duplication) == 0)
        for _ in range(copies):
            delay_ms = self.random.below(self.longest_delay_ms) + 1

            def deliver() -> None:
                if (source.id, target.id) not in self.cut and not (self.loss and self.random.below(self.loss) == 0):
                    arrive()

            self.later(delay_ms, deliver)

    # Clients

    def leader(self) -> Host | None:
        """The host whose state machine leads the highest epoch."""
        leading = [
            host
            for host in self.hosts.values()
            if host.machine is not None and host.is_leader_told and isinstance(host.machine.state, Leader)
        ]
        return max(leading, key=lambda host: host.led_epoch, default=None)

    def propose(self, host: Host) -> int:
        proposal_id = next(self._proposals)
        if host.machine is not None:
            values = [f"{proposal_id}-{number}".encode() for number in range(1 + self.random.below(3))]
            self.step(host, Propose(proposal_id, host.machine.epoch, values))
        return proposal_id

    def ask(self, host: Host, request: Request[Any]) -> list[Message]:
        """Sends a client's request; the list has the response once there is one."""
        answers: list[Message] = []
        version = type(request).versions.high
        request_id = next(self._request_ids)
        self._waiting[request_id] = (
            host.incarnation,
            None,
            version,
            lambda data, kind: answers.append(decode(kind, version, data)),
        )
        self.step(host, RequestReceived(request_id, request, version, LISTENER))
        return answers

    def stop(self, host: Host) -> None:
        self.step(host, BeginShutdown(5000))

    def take_snapshot(self, host: Host) -> None:
        machine = host.machine
        if machine is None:
            return
        batch = next((b for b in reversed(host.log.content.batches) if b.next_offset <= host.applied), None)
        if batch is None or any(known.offset >= batch.next_offset for known in host.log.snapshots):
            return
        snapshot_id = OffsetAndEpoch(batch.next_offset, batch.epoch)
        voters = machine.control.voters_at(snapshot_id.offset - 1)
        records = []
        if voters is not None:
            records = [version_record(machine.control.kraft_version_at(snapshot_id.offset - 1)), voters_record(voters)]
        data = snapshot_data(records, batch.epoch, bytes(self.random.below(300)))
        host.log.add_snapshot(snapshot_id, data)
        self.step(host, SnapshotTaken(snapshot_id, len(data)))
        if self.random.below(2) == 0 and host.machine is not None:
            deleted = host.log.clean(snapshot_id.offset)
            self.step(host, LogCleaned(snapshot_id.offset, deleted))

    # Time

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay_ms, next(self._order), action))

    def run(self, duration_ms: int, until: Callable[[], bool] | None = None) -> bool:
        """Lets time pass; True as soon as `until` holds."""
        end = self.now + duration_ms
        while self._queue and self._queue[0][0] <= end:
            at, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            action()
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    def _note(self, host: Host, what: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.now - 1_000_000:6} host {host.id}: {what}")


def filled(effect: Respond, log: MemoryLog) -> Response:
    """The response with its records, as the shell sends it."""
    response: Any = effect.response
    match effect.records:
        case LogSlice(offset, max_bytes):
            response.responses[0].partitions[0].records = log.read(offset, max_bytes)
        case SnapshotSlice(snapshot_id, position, max_bytes):
            response.topics[0].partitions[0].unaligned_records = log.read_snapshot(snapshot_id, position, max_bytes)
    result: Response = response
    return result
