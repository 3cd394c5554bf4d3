"""A member of the metadata quorum, voter or observer: it runs a Raft machine and is the node's `MetadataLog`.

Everything that happens (a request, a response, the end of an fsync, a deadline) is a step of the machine, and the
effects that the step returns are performed at once, in order. Listeners (committed records, a new leader, a fetched
snapshot) are called after that: one may append at once, which is the next step.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from cordwood.log.steps import Job, Steps
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.storage.disk_log import DiskLog
from cordwood.metadata.storage.snapshot import QuorumVoters, Snapshot
from cordwood.metadata.storage.snapshot_files import SnapshotJob
from cordwood.metadata.versions import record_version
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
    UpgradeKRaftVersion,
)
from cordwood.raft.exceptions import InconsistentQuorum, WrongIdentity
from cordwood.raft.identity import Endpoint, LeaderAndEpoch, Node
from cordwood.raft.log import LogState, OffsetAndEpoch
from cordwood.raft.machine import RaftMachine
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.states import State
from cordwood.raft.voters import VoterSet
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import Random
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import encode_metadata_record
from cordwood.wire.messages.fetch import FetchResponse
from cordwood.wire.messages.fetch_snapshot import FetchSnapshotResponse
from cordwood.wire.primitives import Uuid
from cordwood.wire.record import Buffer
from cordwood.wire.schema import MetadataRecord, Request, Response

from .configuration import doubtful_identity
from .figures import QuorumFigures

_log = logging.getLogger(__name__)

# How long a leader that stops waits for another one to take over.
_SHUTDOWN_TIMEOUT_MS = 2_000


class Peers(Protocol):
    """The other members, and how they are asked."""

    async def ask(self, node: Node, request: Request[Any]) -> Response:
        """Raises PeerFailed if no response can be had."""

    async def close(self) -> None: ...


class PeerFailed(Exception):
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Member:
    """`start` begins participation. `failed` is called once, if the member cannot continue: its disk has failed, or the
    quorum has violated a Raft invariant."""

    def __init__(
        self,
        config: ReplicaConfig,
        log: DiskLog,
        applied_offset: int,
        static_voters: VoterSet,
        peers: Peers,
        clock: Clock,
        random: Random,
        failed: Callable[[Exception], None],
    ) -> None:
        """`applied_offset` is how far the node has loaded the log: where its newest snapshot ends."""
        control = ControlState.load(log, static_voters)
        election = log.read_election(is_only_voter=control.voters.is_only_voter(config.local.key))
        self._config = config
        self._disk_log = log
        self._machine = RaftMachine(config, LogState.of(log), control, election, random)
        self._peers = peers
        self._clock = clock
        # Deadlines must not follow a wall clock that is adjusted, and records carry times near the wall clock's.
        self._clock_offset_ms = clock.now_ms() - int(clock.monotonic() * 1000)
        self._on_failure = failed
        self._failure: Exception | None = None
        # It takes no further part: it has failed, or the node stops.
        self._has_ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushing: asyncio.Task[None] | None = None
        self._responses: dict[int, asyncio.Future[Response]] = {}
        self._last_request_id = 0
        self._proposal: ProposalAppended | ProposalRefused | None = None
        # Listeners have received everything up to here.
        self._applied_offset = applied_offset
        # Batches appended as the leader and not committed yet, oldest first, so that they need not be read again.
        self._appended: deque[MetadataBatch] = deque()
        # What was appended last: followers fetch just that, so it need not be read.
        self._last_append: Append | None = None
        self._leader = LeaderAndEpoch(None, election.epoch)
        self._news: deque[CommitUpTo | InstallSnapshot | LeadershipChanged] = deque()
        self._is_telling = False
        self._commit_listeners: list[Callable[[Sequence[MetadataBatch]], None]] = []
        self._snapshot_listeners: list[Callable[[OffsetAndEpoch, Snapshot], None]] = []
        self._leader_listeners: list[Callable[[LeaderAndEpoch], None]] = []
        self.figures = QuorumFigures(clock.monotonic)
        self._caught_up = asyncio.Event()
        self._shut_down = asyncio.Event()

    # Read by others

    @property
    def leader(self) -> LeaderAndEpoch:
        return self._leader

    @property
    def state(self) -> State:
        """The Raft machine's epoch: it leads before listeners are called."""
        return self._machine.state

    @property
    def is_voter(self) -> bool:
        return self._machine.is_voter

    @property
    def log_end(self) -> OffsetAndEpoch:
        return self._machine.log.end

    @property
    def log(self) -> DiskLog:
        """For reading only."""
        return self._disk_log

    @property
    def failure(self) -> Exception | None:
        """The reason why this member cannot continue."""
        return self._failure

    @property
    def leader_endpoint(self) -> tuple[int, Endpoint] | None:
        """The id of the quorum's leader, and where this member reaches it."""
        state = self._machine.state
        if state.leader_id is None:
            return None
        endpoint = state.leader_endpoints.get(self._config.listener)
        if endpoint is None:
            endpoint = self._machine.voters.endpoints(state.leader_id).get(self._config.listener)
        return None if endpoint is None else (state.leader_id, endpoint)

    @property
    def quorum(self) -> QuorumVoters:
        return self._quorum_at(self._disk_log.end_offset)

    def _quorum_at(self, offset: int) -> QuorumVoters:
        control = self._machine.control
        voters = control.voters_at(offset)
        return QuorumVoters(control.kraft_version_at(offset), None if voters is None else voters.to_record())

    @property
    def voters(self) -> VoterSet:
        return self._machine.voters

    @property
    def high_watermark(self) -> int:
        return self._disk_log.log.high_watermark

    @property
    def end_offset(self) -> int:
        return self._disk_log.end_offset

    @property
    def was_cut_for_good(self) -> bool:
        return self._disk_log.was_cut and self.voters.is_only_voter(self._config.local.key)

    def deleted_topics(self) -> set[Uuid]:
        return self._disk_log.deleted_topics()

    # Life

    def start(self) -> None:
        self._perform_all(self._machine.start, ())

    async def caught_up(self) -> None:
        """Returns once this member knows a leader and has applied everything that leader had committed. Raises the
        error if the member fails."""
        await self._caught_up.wait()
        if self._failure is not None:
            raise self._failure

    async def finish(self) -> None:
        """Hands leadership over, if this member has it, and takes no further part. All that was appended is flushed."""
        await self._flushes()
        if self._failure is None:
            self._step(BeginShutdown(_SHUTDOWN_TIMEOUT_MS))
            await self._shut_down.wait()
            await self._flushes()
        self._end_part()
        for task in list(self._tasks):
            task.cancel()
        await self._peers.close()

    def abandon(self) -> None:
        """Stops participating without calling listeners: the node could not start."""
        self._failure = self._failure or InconsistentQuorum("the node did not start")
        self._has_ended = True
        self._stop_timer()
        for task in self._tasks:
            task.cancel()

    async def _flushes(self) -> None:
        while self._flushing is not None:
            await asyncio.shield(self._flushing)

    def close(self) -> None:
        """Writes a snapshot for a quick start. Committed records are on disk already."""
        if self._failure is None:
            try:
                self._disk_log.close(self._clock.now_ms())
            except DiskError as error:
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stops a member that cannot continue: nothing more is committed here."""
        if self._failure is not None:
            return
        self._failure = error
        self._end_part()
        self._shut_down.set()
        self._caught_up.set()
        self._on_failure(error)

    def _end_part(self) -> None:
        """Fails pending decisions and requests, so that a stopping server need not wait for them."""
        self._has_ended = True
        self._stop_timer()
        for response in list(self._responses.values()):
            if not response.done():
                response.set_exception(self._refusal())
        self._change_leader(LeaderAndEpoch(None, self._machine.epoch))

    def _refusal(self, error: ErrorCode = ErrorCode.BROKER_NOT_AVAILABLE) -> Refusal:
        reason = "it is stopping" if self._failure is None else str(self._failure)
        return Refusal(error, f"node {self._config.local.key.id} takes no further part in the quorum: {reason}")

    # Writing

    def append(self, records: Sequence[MetadataRecord], epoch: int, metadata_version: int) -> MetadataBatch:
        values = [encode_metadata_record(record, record_version(record, metadata_version)) for record in records]
        base_offset, now_ms = self._disk_log.end_offset, self._now()
        appended = self._propose(Propose(0, epoch, values), now_ms)
        batch = MetadataBatch(base_offset, appended.last_offset + 1, epoch, now_ms, 0, tuple(records))
        self._appended.append(batch)
        return batch

    def upgrade_kraft_version(self, epoch: int, version: int, *, validate_only: bool) -> None:
        self._propose(UpgradeKRaftVersion(0, epoch, version, validate_only), self._now())

    def _propose(self, event: Propose | UpgradeKRaftVersion, now_ms: int) -> ProposalAppended:
        if self._has_ended:
            raise self._refusal(ErrorCode.NOT_CONTROLLER)
        self._perform(self._machine.step(event, now_ms))
        outcome, self._proposal = self._proposal, None
        if isinstance(outcome, ProposalRefused):
            raise Refusal(outcome.error, outcome.message)
        if outcome is None:
            raise self._refusal(ErrorCode.NOT_CONTROLLER)
        if self._news and not self._is_telling:
            # Listeners are never called within their own calls.
            asyncio.get_running_loop().call_soon(self._tell)
        return outcome

    # Listening

    def on_commit(self, listener: Callable[[Sequence[MetadataBatch]], None]) -> None:
        self._commit_listeners.append(listener)

    def on_snapshot(self, listener: Callable[[OffsetAndEpoch, Snapshot], None]) -> None:
        self._snapshot_listeners.append(listener)

    def on_leader_change(self, listener: Callable[[LeaderAndEpoch], None]) -> None:
        self._leader_listeners.append(listener)
        listener(self._leader)

    # Serving

    def answer(self, request: Request[Any], version: int, listener: str) -> Awaitable[Response]:
        """The response to a request of another member, or of a client that asks about the quorum. A fetch may be held
        until there is something to return. Refused with BROKER_NOT_AVAILABLE once this member has stopped."""
        if self._has_ended:
            raise self._refusal()
        self._last_request_id += 1
        request_id = self._last_request_id
        response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._responses[request_id] = response
        response.add_done_callback(lambda _response: self._responses.pop(request_id, None))
        self._step(RequestReceived(request_id, request, version, listener))
        return response

    # Steps and their effects

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000) + self._clock_offset_ms

    def _step(self, event: Event) -> None:
        self._perform_all(self._machine.step, (event,))

    def _perform_all(self, step: Callable[..., list[Effect]], arguments: tuple[Event, ...]) -> None:
        if self._failure is not None:
            return
        before, began_s = self._machine.state, self._clock.monotonic()
        try:
            effects = step(*arguments, self._now())
        except (InconsistentQuorum, WrongIdentity) as error:
            self.fail(error)
            return
        self._perform(effects)
        self.figures.stepped(before, self._machine.state, began_s)
        self._tell()

    def _perform(self, effects: list[Effect]) -> None:
        try:
            for effect in effects:
                self._perform_one(effect)
        except (DiskError, InvalidMetadata) as error:
            self.fail(error)
            return
        self._set_timer()

    def _perform_one(self, effect: Effect) -> None:
        log = self._disk_log
        match effect:
            case Append(base_offset, end_offset, batches):
                log.append(batches, self._clock.now_ms())
                self._last_append = effect
                self.figures.appended(end_offset - base_offset, self._machine.state)
            case Flush():
                # It begins with the loop's next iteration, and is shared by everything that is appended in this one.
                self._begin_flush()
            case Respond(request_id, response, records):
                self._respond(request_id, response, records)
            case Send():
                self._spawn(self._send(effect))
            case CommitUpTo() | LeadershipChanged():
                self._news.append(effect)
            case ProposalAppended() | ProposalRefused():
                self._proposal = effect
            case PersistQuorumState(data):
                log.write_election(data)
            case Truncate(offset):
                while self._appended and self._appended[-1].next_offset > offset:
                    self._appended.pop()
                self._last_append = None
                log.truncate(offset, self._clock.now_ms())
            case WriteSnapshotPiece(snapshot_id, position, data):
                log.snapshot_files.write_piece(snapshot_id, position, data)
            case DiscardSnapshot(snapshot_id):
                log.snapshot_files.discard(snapshot_id)
            case InstallSnapshot(snapshot_id):
                self._appended.clear()
                self._last_append = None
                log.install_snapshot(snapshot_id, self._clock.now_ms())
                self._news.append(effect)
            case ShutdownCompleted(is_clean):
                if not is_clean:
                    _log.info("No other controller has taken over within %d ms", _SHUTDOWN_TIMEOUT_MS)
                self._shut_down.set()

    def _begin_flush(self) -> None:
        self._flushing = asyncio.get_running_loop().create_task(self._flush(self._flushing))

    async def _flush(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        try:
            job = self._disk_log.begin_flush(self._clock.now_ms())
            await asyncio.get_running_loop().run_in_executor(None, job.run)
            self._disk_log.end_flush(job)
        except DiskError as error:
            self._end_flush()
            self.fail(error)
        else:
            self._end_flush()
            self._step(Flushed(job.end_offset))

    def _end_flush(self) -> None:
        if self._flushing is asyncio.current_task():
            self._flushing = None

    def _respond(self, request_id: int, response: Response, records: LogSlice | SnapshotSlice | None) -> None:
        waiting = self._responses.get(request_id)
        if waiting is None or waiting.done():
            return
        if isinstance(records, LogSlice):
            assert isinstance(response, FetchResponse)
            response.responses[0].partitions[0].records = self._read(records)
        elif isinstance(records, SnapshotSlice):
            assert isinstance(response, FetchSnapshotResponse)
            piece = self._disk_log.read_snapshot(records.id, records.position, records.max_bytes)
            response.topics[0].partitions[0].unaligned_records = piece
        waiting.set_result(response)

    def _read(self, records: LogSlice) -> Buffer:
        last = self._last_append
        if last is not None and (last.base_offset, last.end_offset) == (records.offset, self._disk_log.end_offset):
            return last.batches
        return self._disk_log.read(records.offset, records.max_bytes)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, send: Send) -> None:
        try:
            response = await self._peers.ask(send.node, send.request)
        except PeerFailed as failed:
            self._step(RequestFailed(send.correlation_id, failed.error))
        else:
            self._step(ResponseReceived(send.correlation_id, response))

    # Time

    def _set_timer(self) -> None:
        deadline_ms = self._machine.deadline_ms
        if deadline_ms == self._timer_at:
            return
        self._stop_timer()
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._now()) / 1000
            self._timer_at = deadline_ms
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_at = None

    def _tick(self) -> None:
        self._timer = self._timer_at = None
        self._step(Tick())

    # Telling the node

    def _tell(self) -> None:
        """Calls the listeners with all news, in order. Consequences of a call are delivered after it."""
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._news and self._failure is None:
                news = self._news.popleft()
                match news:
                    case CommitUpTo(high_watermark):
                        self._tell_committed(high_watermark)
                    case InstallSnapshot(snapshot_id):
                        self._tell_snapshot(snapshot_id)
                    case LeadershipChanged(leader_id, epoch):
                        self._change_leader(LeaderAndEpoch(leader_id, epoch))
        except (DiskError, InvalidMetadata) as error:
            self.fail(error)
        finally:
            self._is_telling = False
        if not self._caught_up.is_set() and self._machine.is_caught_up(self._applied_offset):
            self._caught_up.set()
            doubt = doubtful_identity(self._config, self._machine.voters)
            if doubt is not None:
                _log.warning(doubt)

    def _tell_committed(self, high_watermark: int) -> None:
        self._disk_log.committed(high_watermark)
        batches: list[MetadataBatch] = []
        while self._applied_offset < high_watermark:
            if self._appended and self._appended[0].base_offset <= self._applied_offset:
                found = [self._appended.popleft()]
                self.figures.committed(max(0, self._now() - found[0].timestamp_ms))
            else:
                end = min(high_watermark, self._appended[0].base_offset) if self._appended else high_watermark
                found = list(self._disk_log.batches(self._applied_offset, end))
            if not found:
                # A snapshot has replaced them; the next notification has it.
                break
            batches += found
            self._applied_offset = found[-1].next_offset
        if batches:
            for listener in self._commit_listeners:
                listener(batches)

    def _tell_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        snapshot = self._disk_log.snapshot_files.load(snapshot_id)
        self._applied_offset = snapshot_id.offset
        self._disk_log.committed(snapshot_id.offset)
        for listener in self._snapshot_listeners:
            listener(snapshot_id, snapshot)

    def _change_leader(self, leader: LeaderAndEpoch) -> None:
        if leader != self._leader:
            self._leader = leader
            for listener in self._leader_listeners:
                listener(leader)

    # Upkeep

    def recording(self) -> Job | None:
        # Committed records need not be on stable storage here: an observer does not flush, and a leader counts others.
        return self._disk_log.committed_offset.recording(
            min(self.high_watermark, self._disk_log.log.durability.recovery_point)
        )

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        return self._disk_log.snapshot_due(image, now_ms)

    async def flushed(self, offset: int) -> None:
        while self._failure is None and self._disk_log.log.durability.recovery_point < offset:
            if self._flushing is None:
                # Observers do not flush for the quorum's sake.
                self._begin_flush()
            assert self._flushing is not None
            await asyncio.wait([self._flushing])

    def begin_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotJob:
        return self._disk_log.begin_snapshot(image, self._quorum_at(image.covers.offset - 1), now_ms)

    def end_snapshot(self, job: SnapshotJob, now_ms: int) -> None:
        size = self._disk_log.end_snapshot(job)
        if size is not None:
            self._step(SnapshotTaken(job.id, size))
            self.clean(now_ms)

    def clean(self, now_ms: int) -> None:
        cleaned = self._disk_log.clean(now_ms)
        if cleaned is not None:
            self._step(LogCleaned(cleaned.start_offset, cleaned.snapshots))

    def purging(self, now_ms: int) -> Steps[object]:
        return self._disk_log.purging(now_ms)
