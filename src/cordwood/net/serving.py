"""One served connection: requests in, responses out in the order of the requests.

    handler(frame, connection) -> Answer

An answer is one of
- a list of parts, the whole response with its size: the fast way, which costs neither a task nor a future;
- None: this request has no response (Produce with acks=0);
- a `Reply`, which its holder answers later: for parked requests that are woken by a callback;
- a coroutine, which becomes a task and returns a list or None.

A handler that finds bytes it cannot read raises `BadRequest`: a log line and the end of the connection. Any other
exception is our bug: it is logged with its request, counted, and costs the connection, nothing else.

A handler may keep views (`memoryview`) of a frame for as long as it likes. The frame itself, if it is a large one, is
the server's again once it was answered at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from struct import Struct
from typing import Any

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.framing import LARGE_BYTES, BadFrame, FrameReader, Scratch
from cordwood.net.limits import Counts, Limits
from cordwood.runtime.network import Connection, ConnectionLost, Part

_log = logging.getLogger(__name__)

# Responses are collected up to this size before they are sent. Then other connections are served: a pipeline of
# expensive requests (all topics of a large cluster, thousands of times) would block them for seconds.
_GATHER_BYTES = 1 << 16
# How much of a request a log line shows.
_SHOWN_BYTES = 64
_START = Struct(">hhi")
# After so many requests in a row that could have waited, each so long after the one before, the next may wait.
_CALM_REQUESTS = 3
_CALM_S = 0.5


class BadRequest(Exception):
    """A request that cannot be decoded or is not allowed here; its connection is closed with this message."""


class Reply:
    """An answer that is given later, once: `answer(parts)`, or `fail(error)` for an exception of the handler.

    One that `holds` delays later requests of its connection until it is answered.
    """

    __slots__ = ("_connection", "_error", "_head", "_held_bytes", "_parts", "_size", "done", "holds")

    def __init__(self, *, holds: bool = False) -> None:
        self.done = False
        self.holds = holds
        self._parts: list[Part] | None = None
        self._error: BaseException | None = None
        self._connection: ServedConnection | None = None
        self._held_bytes = 0
        self._head = b""
        self._size = 0

    def answer(self, parts: list[Part] | None) -> None:
        assert not self.done, "a reply is answered once"
        self.done = True
        self._parts = parts
        if self._connection is not None:
            self._connection._answered(self)

    def fail(self, error: BaseException) -> None:
        assert not self.done, "a reply is answered once"
        self.done = True
        self._error = error
        if self._connection is not None:
            self._connection._answered(self)

    @property
    def abandoned(self) -> bool:
        """True if the connection has closed, so that the answer is not needed."""
        return self._connection is not None and self._connection.closed


Answering = Coroutine[Any, Any, list[Part] | None]
Answer = list[Part] | None | Reply | Answering
Handler = Callable[[bytearray, ConnectionInfo], Answer]


class ServedConnection:
    """The `Receiver` of one accepted connection. `ended` is called when it has closed."""

    __slots__ = (
        "_advance_is_due",
        "_backlog",
        "_calm_requests",
        "_connection",
        "_counts",
        "_ended",
        "_full",
        "_gathered",
        "_handler",
        "_limits",
        "_loop",
        "_paused",
        "_reader",
        "_replies",
        "_reply_bytes",
        "_serving",
        "_stopping",
        "_tasks",
        "active_at",
        "closed",
        "info",
    )

    def __init__(
        self,
        connection: Connection,
        info: ConnectionInfo,
        handler: Handler,
        limits: Limits,
        counts: Counts,
        scratch: Scratch,
        tasks: set[asyncio.Task[None]],
        ended: Callable[["ServedConnection"], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.info = info
        self.closed = False
        self.active_at = loop.time()
        self._connection = connection
        self._handler = handler
        self._limits = limits
        self._counts = counts
        self._reader = FrameReader(limits.request_max_bytes, scratch)
        self._tasks = tasks
        self._ended = ended
        self._loop = loop
        # Received requests that are not started; there are some only while the connection is full or waits for its next
        # turn, and never more than one read's worth.
        self._backlog: deque[bytearray] = deque()
        # Requests that were not answered at once, and those after them, in order.
        self._replies: deque[Reply] = deque()
        self._reply_bytes = 0
        self._gathered: list[Part] = []
        self._serving = False
        self._advance_is_due = False
        self._full = False
        self._paused = False
        self._stopping = False
        # How many in a row could have waited.
        self._calm_requests = 0

    @property
    def in_work(self) -> int:
        return len(self._replies)

    @property
    def held_bytes(self) -> int:
        """Requests in progress, responses waiting for earlier ones, and unsent responses."""
        return self._reply_bytes + self._connection.unsent_bytes

    @property
    def buffered_bytes(self) -> int:
        """All the bytes that this connection keeps or has promised to send."""
        return self.held_bytes + self._reader.buffered_bytes + sum(map(len, self._backlog))

    def is_idle(self) -> bool:
        """True if only its peer can make it do anything: a parked Fetch is not idle."""
        return not self._replies

    def start(self) -> None:
        self._connection.start(self)

    def finish(self) -> None:
        """Starts no requests, completes those in progress, closes."""
        self._stopping = True
        self._backlog.clear()
        self._advance()

    def abort(self) -> None:
        self._connection.abort()

    # ---- called by the connection (Receiver)

    def buffer(self) -> memoryview:
        return self._reader.buffer()

    def received(self, count: int) -> None:
        now = self._loop.time()
        passed_s = now - self.active_at
        self.active_at = now
        frames = self._reader.received(count)
        if len(frames) == 1 and not (self._backlog or self._replies or self._full or self._stopping):
            self._serve_alone(frames[0])
        elif frames or self._reader.bad:
            self._backlog += frames
            self._advance()
        if self.info.could_wait or self._calm_requests:
            self._note_calm(is_calm=self.info.could_wait and len(frames) == 1 and passed_s >= _CALM_S)

    def sent(self) -> None:
        self.active_at = self._loop.time()
        self._advance()

    def lost(self, error: ConnectionLost | None) -> None:
        self.closed = True
        if error is not None:
            _log.info("%s: %s", self.info, error)
        self._backlog.clear()
        self._replies.clear()
        self._reply_bytes = 0
        self._gathered.clear()
        self._ended(self)
        self.info.closed()

    # ---- requests

    def _serve_alone(self, frame: bytearray) -> None:
        """Does what `_advance` would do, for a single request on an otherwise idle connection, which is the rule for
        clients that wait for each response: 1.4 µs beside the handler and the socket, against 2.4."""
        if len(frame) >= LARGE_BYTES:
            self._backlog.append(frame)
            self._advance()
            return
        self._serving = True
        try:
            answer = self._handler(frame, self.info)
        except Exception as error:  # noqa: BLE001  # logged with its request
            self._failed(error, frame, len(frame))
            return
        finally:
            self._serving = False
        if isinstance(answer, list):
            try:
                self._connection.send(answer)
            except Exception as error:  # noqa: BLE001  # logged
                self._unsendable(error)
                return
            if not (self._connection.unsent_bytes or self._reader.bad or self._stopping):
                return
        elif answer is not None:
            self._await_turn(answer, frame)
        self._advance()

    def _advance(self) -> None:
        """Does all that can be done now: starts requests while there is room, sends ready responses, pauses or resumes
        reading.

        Every event of the connection ends here. This costs a fraction of a microsecond per request (bench/net.py);
        the rest is the handler's.
        """
        self._advance_is_due = False
        if self._serving or self.closed:
            return
        self._serving = True
        try:
            while True:
                has_had_its_turn = self._begin_requests()
                self._send_ready()
                self._full = self._is_full()
                if self._full or not self._backlog or has_had_its_turn:
                    break
        except Exception as error:  # noqa: BLE001  # logged
            self._unsendable(error)
        finally:
            self._serving = False
        self._settle()

    def _settle(self) -> None:
        if self.closed:
            return
        if self._reader.bad is not None and not self._backlog:
            self._refuse_stream(self._reader.bad)
        elif self._stopping and not self._replies:
            self._connection.close()
        elif self._full or self._stopping:
            self._pause()
        elif self._backlog:
            self._pause()
            if not self._advance_is_due:
                self._advance_is_due = True
                self._loop.call_soon(self._advance)
        elif self._paused:
            self._paused = False
            self._connection.resume_reading()

    def _begin_requests(self) -> bool:
        """Returns whether other connections come first now, although there is room for more."""
        handler, info, backlog, replies, gathered = (
            self._handler,
            self.info,
            self._backlog,
            self._replies,
            self._gathered,
        )
        give_back = self._reader.give_back
        gathered_bytes = 0
        while backlog and not self._full:
            frame = backlog.popleft()
            try:
                answer = handler(frame, info)
            except Exception as error:  # noqa: BLE001  # logged with its request
                # The answers to those before it are ready, so they go out.
                self._send_ready()
                self._failed(error, frame, len(frame))
                return False
            if answer is None:
                continue
            if isinstance(answer, list) and not replies:
                if len(frame) >= LARGE_BYTES and not any(part is frame for part in answer):
                    give_back(frame)
                gathered += answer
                gathered_bytes += sum(map(len, answer))
                if gathered_bytes > _GATHER_BYTES:
                    return True
            else:
                self._await_turn(answer, frame)
                self._full = self._is_full()
        return False

    def _await_turn(self, answer: list[Part] | Reply | Answering, frame: bytearray) -> None:
        reply = answer if isinstance(answer, Reply) else Reply()
        reply._connection = self
        reply._size = reply._held_bytes = len(frame)
        reply._head = bytes(frame[:_SHOWN_BYTES])
        self._reply_bytes += len(frame)
        self._replies.append(reply)
        if isinstance(answer, list):
            reply.answer(answer)
        elif isinstance(answer, Reply):
            if reply.done:
                self._answered(reply)
        else:
            task = self._loop.create_task(_answer_when_done(answer, reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _answered(self, reply: Reply) -> None:
        """Handles a ready reply. Replies of one turn of the loop are sent together."""
        if reply._error is not None:
            self._failed(reply._error, reply._head, reply._size)
            return
        if self.closed:
            return
        # A late answer says nothing about the next request.
        self.info.could_wait = False
        held_bytes = sum(map(len, reply._parts)) if reply._parts else 0
        self._reply_bytes += held_bytes - reply._held_bytes
        reply._held_bytes = held_bytes
        if not (self._serving or self._advance_is_due) and (self._replies[0] is reply or reply.holds):
            self._advance_is_due = True
            self._loop.call_soon(self._advance)

    # ---- responses

    def _send_ready(self) -> None:
        replies, gathered = self._replies, self._gathered
        while replies and replies[0].done:
            reply = replies.popleft()
            self._reply_bytes -= reply._held_bytes
            if reply._parts:
                gathered += reply._parts
        if gathered:
            self._connection.send(gathered)
            gathered.clear()

    # ---- back-pressure

    def _is_full(self) -> bool:
        """True if it has enough to do. Once it had too many bytes, half of them must go first."""
        limits = self._limits
        max_bytes = limits.max_held_bytes // 2 if self._full else limits.max_held_bytes
        replies = self._replies
        if replies and replies[-1].holds and not replies[-1].done:
            return True
        return len(replies) >= limits.max_requests_in_work or self.held_bytes > max_bytes

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._connection.pause_reading()

    def _note_calm(self, *, is_calm: bool) -> None:
        self.info.could_wait = False
        was_patient = self._calm_requests >= _CALM_REQUESTS
        self._calm_requests = self._calm_requests + 1 if is_calm else 0
        is_patient = self._calm_requests >= _CALM_REQUESTS
        if is_patient is not was_patient and not self.closed:
            self._connection.set_patient(is_patient)

    # ---- the end

    def _refuse_stream(self, bad: BadFrame) -> None:
        """Closes the connection because of a bad frame, once the earlier requests have been started."""
        self._counts.bad_frames += 1
        _log.warning("%s: connection closed: %s", self.info, bad)
        self._connection.abort()

    def _unsendable(self, error: Exception) -> None:
        """Fails a request whose response cannot be sent."""
        self._counts.handler_failures += 1
        _log.error("%s: connection closed: a response is not a list of parts", self.info, exc_info=error)
        self._connection.abort()

    def _failed(self, error: BaseException, head: bytes | bytearray, size: int) -> None:
        request = _describe(head, size)
        if isinstance(error, BadRequest):
            self._counts.bad_requests += 1
            _log.warning("%s: connection closed: %s; %s", self.info, error, request)
        else:
            self._counts.handler_failures += 1
            _log.error("%s: connection closed: handler failed on %s", self.info, request, exc_info=error)
        if not self.closed:
            self._connection.abort()


async def _answer_when_done(answer: Awaitable[list[Part] | None], reply: Reply) -> None:
    try:
        parts = await answer
    except Exception as error:  # noqa: BLE001  # logged with its request
        reply.fail(error)
    else:
        reply.answer(parts)


def _describe(head: bytes | bytearray, size: int) -> str:
    shown = bytes(head[:_SHOWN_BYTES]).hex()
    if len(head) < _START.size:
        return f"a request of {size} bytes: {shown}"
    api_key, version, correlation_id = _START.unpack_from(head)
    return (
        f"a request of {size} bytes, API {api_key} version {version}, correlation id {correlation_id}: {shown}"
        f"{'…' if size > _SHOWN_BYTES else ''}"
    )
