"""The events of a run, in order, as one hash: two runs with the same hash took the same course.

The last events are kept as they are, for a failure message.
"""

import hashlib
from collections import deque
from collections.abc import Callable
from zlib import crc32

_KEPT = 400
# Events that are kept for a cluster's whole run.
_MILESTONES = {
    *("start", "started", "stop", "kill", "power-off", "failed", "pause", "resume", "cut", "heal", "block", "unblock"),
    *("clock", "slow-disk", "disk-fault", "crash-soon", "leads", "voters", "healed"),
    *("partition", "isr", "replicas", "reassign", "configure", "grow", "wipe", "disk-full", "disk-freed", "rolling"),
}


class Trace:
    def __init__(self, kept: int = _KEPT) -> None:
        self.events = 0
        # Set by the loop whose time it shows.
        self.clock: Callable[[], float] = lambda: 0.0
        self._hash = hashlib.blake2b(digest_size=16)
        self._last: deque[tuple[float, str, tuple[object, ...]]] = deque(maxlen=kept)
        self._milestones: list[tuple[float, str, tuple[object, ...]]] = []

    def note(self, kind: str, *details: str | int | None) -> None:
        now = self.clock()
        self.events += 1
        self._hash.update(repr((now, kind, details)).encode())
        self._last.append((now, kind, details))
        if kind in _MILESTONES:
            self._milestones.append((now, kind, details))

    def remark(self, kind: str, text: str) -> None:
        """Adds a line that is shown but not hashed: a log line."""
        line = (self.clock(), kind, (text,))
        self._last.append(line)
        self._milestones.append(line)

    def note_bytes(self, kind: str, data: bytes | bytearray | memoryview, *details: str | int | None) -> None:
        """Bytes are shown as their number and checksum."""
        self.note(kind, *details, f"{len(data)} bytes", f"{crc32(data):08x}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def timeline(self) -> str:
        """The starts, faults and leaders of the run."""
        return "\n".join(map(_line, self._milestones))

    def tail(self, count: int = 60) -> str:
        shown = list(self._last)[-count:]
        lines = list(map(_line, shown))
        if self.events > len(shown):
            lines.insert(0, f"… {self.events - len(shown)} events before")
        return "\n".join(lines)


def _line(event: tuple[float, str, tuple[object, ...]]) -> str:
    now, kind, details = event
    return f"{now:12.6f}  {kind:<10} {' '.join(str(detail) for detail in details if detail is not None)}"
