"""One seed, one trace: in this process, in another, and whatever the hashes of strings are there."""

import os
import subprocess
import sys

from cordwood.sim.trace import Trace
from cordwood.sim.workload import run_seed
from cordwood.sim.workloads import WORKLOADS

RUNS = [(workload, seed) for workload in WORKLOADS for seed in (1, 2, 3)]
PRINT_DIGESTS = f"""
from cordwood.sim.workload import run_seed
for workload, seed in {RUNS}:
    print(run_seed(seed, workload).digest)
"""


def digests_elsewhere(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


def test_the_same_seed_takes_the_same_course_in_every_process() -> None:
    here = [run_seed(seed, workload).digest for workload, seed in RUNS]
    assert len(set(here)) == len(RUNS)
    assert digests_elsewhere("1") == here
    assert digests_elsewhere("2") == here


def test_a_digest_covers_events_times_and_order() -> None:
    def digest(*events: tuple[float, str, str]) -> str:
        trace = Trace()
        for now, kind, detail in events:
            trace.clock = lambda now=now: now  # type: ignore[misc]
            trace.note(kind, detail)
        return trace.digest

    events = [(1.0, "disk", "a"), (2.0, "disk", "b")]
    assert digest(*events) == digest(*events)
    others = [
        [(1.0, "disk", "a")],
        [(1.0, "disk", "a"), (2.1, "disk", "b")],
        [(1.0, "disk", "b"), (2.0, "disk", "a")],
        [(1.0, "disk", "a"), (2.0, "job", "b")],
    ]
    assert len({digest(*events), *(digest(*other) for other in others)}) == 5


def test_a_trace_shows_its_end_with_the_bytes_as_a_checksum() -> None:
    trace = Trace(kept=2)
    for number in range(5):
        trace.note_bytes("deliver", b"123456789", f"to {number}")
    assert trace.events == 5
    assert trace.tail() == "\n".join(
        [
            "… 3 events before",
            "    0.000000  deliver    to 3 9 bytes cbf43926",
            "    0.000000  deliver    to 4 9 bytes cbf43926",
        ]
    )
