"""The interface of a workload: the node's set-up, and its clients."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from cordwood.sim.checks import CHECKS, Check
from cordwood.sim.clients.client import Run
from cordwood.sim.clients.consumer import Consumer
from cordwood.sim.cluster import Layout
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.library.consumer import LibraryConsumer

# How many of the clients are the project's own library, and not such as ask by hand.
LIBRARY = 0.35
_SOME_FLUSHES = 0.2


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    # How often each is drawn.
    promises: Mapping[Promise, int]
    settings: Callable[[History, Random], dict[str, str]]
    # From the first client to the judge's final reads.
    main: Callable[[Run, Random], Coroutine[Any, Any, None]]
    checks: Sequence[Check] = CHECKS
    # The layout of the cluster; None for a standalone node.
    layout: Callable[[Random], Layout] | None = None


def busy_settings(history: History, source: Random) -> dict[str, str]:
    """Settings under which periodic work happens often."""
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
        # With a small one, responses are read from files that may have been deleted by then.
        "socket.send.buffer.bytes": source.choice(("102400", "2000")),
        "log.index.interval.bytes": source.choice(("0", "200", "4096")),
    }
    if history.promise is Promise.DURABLE:
        settings["log.flush.interval.messages"] = "1"
    elif source.random() < _SOME_FLUSHES:
        settings["log.flush.interval.messages"] = "5"
    return settings


def any_consumer(
    run: Run, source: Random, name: str, *, is_committed: bool | None = None
) -> Consumer | LibraryConsumer:
    """Some partitions, or all if it reads committed records only."""
    count = source.randint(1, len(run.partitions)) if is_committed is None else len(run.partitions)
    partitions = source.sample(run.partitions, count)
    kind = LibraryConsumer if source.random() < LIBRARY else Consumer
    return kind(run, name, partitions, is_committed=is_committed)
