"""A query from a topic to a topic, exactly once, for minutes, in as many small batches as it manages: does the memory
of its Python workers stay where it is? `python -m bench spark soak [--seconds 300] [--per-second 2000]`.

The resident memory of each Python process of the query is looked at every few seconds, once it is warm; what counts is
its median in the last third of the time against the first.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.nodes.brokers import Cordwood
from bench.nodes.processes import tree
from bench.sparks import topics
from cordwood.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MASTER = "local[2]"
_WARM_S = 30.0
_LOOK_EVERY_S = 5.0
_MB = 1024 * 1024
_HEADER = """\
| Python process | seen for | first third | second | last | most |
|---|---|---|---|---|---|"""


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments or [])
    with tempfile.TemporaryDirectory(prefix="cordwood-soak-") as temporary:
        broker = Cordwood(Path(temporary) / "node")
        broker.start()
        spark = session("soak", master=_MASTER)
        try:
            source, target = (topics.create(broker.bootstrap, name) for name in ("soak-in", "soak-out"))
            with (
                topics.fed(broker.bootstrap, source, topics.PARTITIONS, options.per_second),
                _copying(spark, broker.bootstrap, source, target, f"{temporary}/checkpoint") as query,
            ):
                workers, batches = _watch(query, options.seconds)
            rows = topics.count(broker.bootstrap, target)
        finally:
            spark.stop()
            broker.stop()
    seconds = _WARM_S + options.seconds
    print(f"{batches:,} batches and {rows:,} rows in {seconds:.0f} s, the first {_WARM_S:.0f} to warm up")
    print(_HEADER)
    for worker in workers:
        print(worker.line())


@dataclass
class _Worker:
    name: str
    pid: int
    seen_s: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)

    def line(self) -> str:
        third = max(1, len(self.resident_mb) // 3)
        first, last = median(self.resident_mb[:third]), median(self.resident_mb[-third:])
        second = median(self.resident_mb[third:-third] or self.resident_mb)
        return (
            f"| {self.name} {self.pid} | {self.seen_s[-1] - self.seen_s[0]:.0f} s | {first:.1f} MB | {second:.1f} MB "
            f"| {last:.1f} MB ({(last - first) / first:+.1%}) | {max(self.resident_mb):.1f} MB |"
        )


@contextmanager
def _copying(
    spark: SparkSession, bootstrap: str, source: str, target: str, checkpoint: str
) -> Iterator[StreamingQuery]:
    """Without a pause between batches."""
    rows = spark.readStream.format("cordwood").option("kafka.bootstrap.servers", bootstrap)
    query = (
        rows.options(subscribe=source, startingOffsets="earliest")
        .load()
        .select("key", "value")
        .writeStream.format("cordwood")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        yield query
    finally:
        # A batch that is in progress fails, at length.
        spark.sparkContext.setLogLevel("OFF")
        query.stop()


def _watch(query: StreamingQuery, seconds: float) -> tuple[list[_Worker], int]:
    """Those that were there for most of the time, and how many batches there were."""
    while not any(progress["numInputRows"] for progress in query.recentProgress):
        _wait(query, 1.0)
    _wait(query, _WARM_S)
    found: dict[int, _Worker] = {}
    began = time.monotonic()
    while (now_s := time.monotonic() - began) < seconds:
        for pid in tree(os.getpid()):
            name = _worker_name(pid)
            resident_mb = _resident_mb(pid)
            if name is None or resident_mb is None:
                continue
            worker = found.setdefault(pid, _Worker(name, pid))
            worker.seen_s.append(now_s)
            worker.resident_mb.append(resident_mb)
        _wait(query, _LOOK_EVERY_S)
    by_name: dict[str, int] = defaultdict(int)
    for worker in found.values():
        by_name[worker.name] += 1
    print("Python processes that were seen: " + ", ".join(f"{count} {name}" for name, count in by_name.items()))
    batches = query.lastProgress["batchId"] + 1 if query.lastProgress else 0
    lasting = [worker for worker in found.values() if worker.seen_s[-1] - worker.seen_s[0] > seconds / 2]
    return sorted(lasting, key=lambda worker: worker.name), batches


def _wait(query: StreamingQuery, seconds: float) -> None:
    # Spark takes fractions of seconds, whatever its types say.
    if query.awaitTermination(seconds):  # type: ignore[arg-type]
        raise RuntimeError("the query has ended by itself")


def _worker_name(pid: int) -> str | None:
    """The module that it runs; None for other processes than Python workers."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    started = re.search(rb"\0-m\0((?:pyspark|cordwood\.spark)[\w.]*)\0(?:([a-z][\w.]*)\0)?", command)
    return None if started is None else (started[2] or started[1]).decode().removeprefix("pyspark.")


def _resident_mb(pid: int) -> float | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench spark soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--per-second", type=float, default=2_000.0, help="records that are produced meanwhile")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
