"""What a workload is: how the node is set up, and what its clients do."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from cordwood.sim.client import Run
from cordwood.sim.history import History, Promise

_SOME_FLUSHES = 0.2


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    # How often each is drawn.
    promises: Mapping[Promise, int]
    settings: Callable[[History, Random], dict[str, str]]
    # From the first client to what the judge reads when all is over.
    main: Callable[[Run, Random], Coroutine[Any, Any, None]]


def busy_settings(history: History, source: Random) -> dict[str, str]:
    """What is done now and then is done often."""
    settings = {
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "700",
        "log.flush.offset.checkpoint.interval.ms": "1100",
        "log.flush.start.offset.checkpoint.interval.ms": "1300",
        "replica.high.watermark.checkpoint.interval.ms": "900",
        "log.segment.delete.delay.ms": "800",
        "log.cleaner.backoff.ms": "600",
        "metadata.log.max.record.bytes.between.snapshots": source.choice(("1000", "20971520")),
        # Segments are rolled by time, so that little data makes many.
        "log.roll.ms": source.choice(("1000", "5000", "600000")),
        # With a small one, what is sent is read from files that may be gone by then.
        "socket.send.buffer.bytes": source.choice(("102400", "2000")),
        "log.index.interval.bytes": source.choice(("0", "200", "4096")),
    }
    if history.promise is Promise.DURABLE:
        settings["log.flush.interval.messages"] = "1"
    elif source.random() < _SOME_FLUSHES:
        settings["log.flush.interval.messages"] = "5"
    return settings
