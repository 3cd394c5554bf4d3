"""Common parts of the transformers of all libraries: parameters, steps, and the transformation."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

# The maximum number of available records per transaction.
BATCH = 5
# The share of transactions aborted on purpose, to check that they leave nothing behind.
ABORTED = 0.15


# The exit status of a transformer whose library did not return in time.
STALLED = 75


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


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Ends the process if its work within takes longer."""
    ending = threading.Timer(seconds, os._exit, (STALLED,))
    ending.daemon = True
    ending.start()
    try:
        yield
    finally:
        ending.cancel()
