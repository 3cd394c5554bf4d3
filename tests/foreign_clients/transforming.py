"""Common parts of the transformers of all libraries: parameters, steps, and the transformation."""

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from random import Random

# Of the records that are to be had, into one transaction.
BATCH = 5
# Of the transactions, aborted for no reason but to see that they leave nothing behind.
ABORTED = 0.15


@dataclass(frozen=True, slots=True)
class Death:
    at_step: int
    after_s: float


@dataclass(frozen=True, slots=True)
class TransformerSpec:
    name: str
    library: str
    bootstrap: str
    group: str
    # Also the name of a static member.
    transactional_id: str
    source: str
    sink: str
    sink_partitions: int
    journal: Path
    seed: int
    # Which partitions of the source it takes; None leaves that to the group.
    partitions: tuple[int, ...] | None = None
    protocol: str = "classic"
    death: Death | None = None


class Steps:
    """Where a transformer is in its work, and when it dies of it."""

    def __init__(self, spec: TransformerSpec) -> None:
        self._death = spec.death
        self._taken = 0
        self._random = Random(spec.seed)

    def take(self) -> None:
        self._taken += 1
        if self._death is not None and self._taken == self._death.at_step:
            killing = threading.Timer(self._death.after_s, os.kill, (os.getpid(), signal.SIGKILL))
            killing.daemon = True
            killing.start()

    def is_to_abort(self) -> bool:
        return self._random.random() < ABORTED


def transformed(number: bytes) -> bytes:
    return b"%d" % (int(number) * 3 + 1)
