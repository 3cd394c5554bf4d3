"""This process as the operating system sees it: its resource usage, and the signals that ask it to stop."""

import os
import resource
import signal
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
# Fields of /proc/self/stat after the name, which may contain spaces: the start time is the 22nd of all.
_START_TICKS = 22 - 3


class ProcessUsage(NamedTuple):
    """None where the system does not report a value."""

    cpu_seconds: float
    resident_bytes: int | None
    open_descriptors: int | None
    max_descriptors: int


def process_usage() -> ProcessUsage:
    times = resource.getrusage(resource.RUSAGE_SELF)
    resident = open_descriptors = None
    if _PROC.exists():
        resident = int((_PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        # One of them belongs to the listing itself.
        open_descriptors = len(os.listdir(_PROC / "self/fd")) - 1
    return ProcessUsage(
        cpu_seconds=times.ru_utime + times.ru_stime,
        resident_bytes=resident,
        open_descriptors=open_descriptors,
        max_descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def process_start_s() -> float | None:
    """Seconds since the epoch."""
    if not _PROC.exists():
        return None
    ticks = int((_PROC / "self/stat").read_text().rpartition(")")[2].split()[_START_TICKS])
    boot = next(line for line in (_PROC / "stat").read_text().splitlines() if line.startswith("btime "))
    return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a node. SIGHUP, sent by a closed terminal, is not among them if it is ignored, as with
    `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM] if is_ignored else [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
