"""Processes that are measured: what they inherit, and what they and their children cost, from /proc."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def as_installed() -> dict[str, str]:
    """This environment without what keeps Python from having compiled modules: an installed package has them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def tree(pid: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        found.append(current := waiting.pop())
        waiting += children.get(current, [])
    return found


def cpu_s(pid: int) -> float:
    """User and system time, of ended children that were waited for, too."""
    ticks = 0
    for each in tree(pid):
        if fields := _stat(each):
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / _TICKS_PER_S


def rss_mb(pid: int) -> float:
    pages = 0
    for each in tree(pid):
        try:
            pages += int(Path(f"/proc/{each}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * _PAGE_BYTES / 1e6


def _stat(pid: int) -> list[str]:
    """The fields after the name in /proc/PID/stat: state, parent, …; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def settle(size: int) -> None:
    """Makes the machine the same for every bulk run: what earlier ones wrote is on the disk, and memory is available.

    With much unwritten data in the page cache the kernel slows down the next writer. And a virtual machine may
    hand its free pages back to the host; a page cache write to such a page is ten times slower. So `size` bytes of
    memory are taken, and given back.
    """
    os.sync()
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE):
        pass
