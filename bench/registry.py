"""The schema registry in a separate process: cached reads, registrations, and loading many schemas.

The wall clock is that of the whole machine, clients included; the registry's own CPU time shows its capacity alone.
"""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import cordwood.testing
from cordwood import Admin, NewTopic, Producer
from cordwood.registry.state.records import SchemaVersion, guid_of

CLIENTS = 4
READS = 10_000
REGISTRATIONS = 2_000
SUBJECTS, VERSIONS = 10_000, 5
_HEADERS = {"content-type": "application/json"}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Registry(NamedTuple):
    port: int
    pid: int
    ready_s: float
    ready_cpu_s: float


def main() -> None:
    with cordwood.testing.node(subprocess=True) as node, serving(node.bootstrap) as registry:
        _register(registry.port, 0, 1)
        measure(registry, "cached reads", READS, _read)
        measure(registry, "registrations", REGISTRATIONS, _register)
    with cordwood.testing.node(subprocess=True) as node:
        _fill(node.bootstrap)
        with serving(node.bootstrap) as registry:
            print(
                f"{SUBJECTS:,} subjects with {VERSIONS} versions: ready after {registry.ready_s:.1f} s "
                f"({registry.ready_cpu_s:.1f} s of CPU), {_memory_mb(registry.pid)} MB"
            )
            _register(registry.port, 0, 1)
            print(f"the same, after a write: {_memory_mb(registry.pid)} MB")


def measure(registry: Registry, what: str, count: int, work: Callable[[int, int, int], None]) -> None:
    """By clients in separate processes."""
    each = count // CLIENTS
    cpu_s, started = _cpu_s(registry.pid), time.perf_counter()
    context = get_context("spawn")
    workers = [context.Process(target=work, args=(registry.port, number, each)) for number in range(1, CLIENTS + 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took_s = time.perf_counter() - started
    own_s = _cpu_s(registry.pid) - cpu_s
    print(
        f"{what}: {count / took_s:,.0f}/s with {CLIENTS} clients; {own_s / count * 1e6:.0f} µs of the registry's CPU "
        f"each, {count / own_s:,.0f}/s if it had one to itself"
    )


def _read(port: int, _number: int, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(count):
        connection.request("GET", "/schemas/ids/1")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body


def _register(port: int, number: int, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for turn in range(count):
        body = json.dumps({"schema": _schema(number * 1_000_000 + turn, 0)})
        connection.request("POST", f"/subjects/registered-{number}-{turn}/versions", body, _HEADERS)
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told


def _schema(number: int, version: int) -> str:
    """With some fields, as real ones have."""
    fields = [{"name": f"field{each}", "type": ["null", "string"], "default": None} for each in range(6 + version)]
    return json.dumps({"type": "record", "name": f"Order{number}", "fields": fields}, separators=(",", ":"))


def _fill(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("_schemas", 1, 1, configs={"cleanup.policy": "compact"})])
    id_ = 0
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(SUBJECTS):
            for version in range(1, VERSIONS + 1):
                id_ += 1
                text = _schema(number, version)
                stored = SchemaVersion(f"subject-{number}", version, id_, "AVRO", text, guid=guid_of(text, ()))
                key, value = stored.record().encoded()
                producer.send("_schemas", value, key=key)
        producer.flush()


@contextmanager
def serving(bootstrap: str) -> Iterator[Registry]:
    command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", bootstrap, "--port", "0"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        yield Registry(int(url.rpartition(":")[2]), process.pid, time.perf_counter() - started, _cpu_s(process.pid))
        process.terminate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _memory_mb(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    main()
