"""A bounded pool of open file descriptors, shared by thousands of partitions."""

import os
import resource
from typing import Protocol

# Sockets, pipes, libraries and short-lived opens need descriptors too.
_RESERVED = 256
_RESERVED_SHARE = 4
# Reopening a file costs an append 20 µs: if the system allows, each of 10,000 partitions written in turn keeps its own.
_MAX_POOLED = 16_384


class Pooled(Protocol):
    fd: int
    recently_used: bool

    @property
    def disk(self) -> object: ...


class DescriptorPool:
    """Closes the least recently used files when too many are open (second-chance order: use only sets a flag)."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit if limit is not None else default_limit()
        self._open: dict[int, Pooled] = {}

    def __len__(self) -> int:
        return len(self._open)

    def adopt(self, file: Pooled, fd: int) -> None:
        if len(self._open) >= self.limit:
            self._evict()
        file.fd = fd
        self._open[id(file)] = file

    def release(self, file: Pooled) -> None:
        if file.fd >= 0:
            del self._open[id(file)]
            os.close(file.fd)
            file.fd = -1

    def close_all(self, disk: object) -> None:
        for file in [file for file in self._open.values() if file.disk is disk]:
            self.release(file)

    def _evict(self) -> None:
        while True:
            key = next(iter(self._open))
            file = self._open[key]
            if not file.recently_used:
                self.release(file)
                return
            file.recently_used = False
            self._open[key] = self._open.pop(key)


def default_limit() -> int:
    """The process's descriptor limit minus a reserve; raises the soft limit to the hard one first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass
    if soft == resource.RLIM_INFINITY:
        return _MAX_POOLED
    return max(64, min(_MAX_POOLED, soft - max(_RESERVED, soft // _RESERVED_SHARE)))
