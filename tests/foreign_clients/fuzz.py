"""A fuzzing client: everything in `attacks`, in several processes, against a node that is at work for others.

    python tests/foreign_clients/fuzz.py --seconds 60
    python tests/foreign_clients/fuzz.py --seconds 60 --seed 7 --bootstrap localhost:9092

Afterwards the node's other clients have seen no error, it holds no more memory than before (within `MAX_GROWTH_BYTES`),
no exception of its own is in its log, and it answers.
"""

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

from tests.foreign_clients.attacks import ATTACKS, WEIGHTS, Attack, Target, Unforgivable, choose_requests
from tests.foreign_clients.kafka_client import Address, Record, eventually
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_process import NodeProcess, Nodes
from tests.foreign_clients.workload import SteadyProducer, SteadyReader

PROCESSES = 2
THREADS = 4
# A requirement of memory: for any input, and any duration.
MAX_GROWTH_BYTES = 40 << 20
# The other clients' activity.
RECORDS_PER_SECOND = 5_000
# A fuzzed request must not fill the node with topics. Connections rejected because of the limit are not the point here.
NODE_SETTINGS = {"auto.create.topics.enable": "false", "socket.listen.backlog.size": "1000"}


@dataclass(slots=True)
class Attacked:
    """Results of the attackers, and problems that they found in the node's reactions."""

    attempts: Counter[str] = field(default_factory=Counter)
    wrongs: list[str] = field(default_factory=list)

    def __add__(self, other: "Attacked") -> "Attacked":
        return Attacked(self.attempts + other.attempts, self.wrongs + other.wrongs)


@dataclass(slots=True)
class Report:
    attacked: Attacked = field(default_factory=Attacked)
    records: int = 0
    rss_before_bytes: int = 0
    rss_after_bytes: int = 0
    # All that is wrong: nothing may be.
    wrongs: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{count:8} {name.replace('_', ' ')}" for name, count in sorted(self.attacked.attempts.items())]
        lines.append(f"{self.records:8} records written and read by others meanwhile")
        if self.rss_after_bytes:
            lines.append(f"memory {self.rss_before_bytes >> 20} MiB before, {self.rss_after_bytes >> 20} MiB after")
        return "\n".join([*lines, *(f"WRONG: {wrong}" for wrong in self.wrongs)])


def fuzz(address: Address, seconds: float, seed: int, node: Nodes | None = None) -> Report:
    """`node`: the process, to look at its memory and its log; not available when it is foreign."""
    report = Report()
    client = LibrdkafkaClient(address)
    busy, fuzzed = (f"{role}-{Random().randbytes(4).hex()}" for role in ("busy", "fuzzed"))
    for topic in (busy, fuzzed):
        client.create_topic(topic)
        eventually(lambda topic=topic: client.leaders(topic), lambda leaders: leaders.get(0, -1) >= 0)  # type: ignore[misc]
    # The first of several.
    host, _, port = address.bootstrap.partition(",")[0].rpartition(":")
    target = Target(host, int(port), fuzzed)

    with (
        SteadyProducer(address, busy, per_second=RECORDS_PER_SECOND) as producer,
        SteadyReader(address, busy) as reader,
    ):
        # Memory is compared with that of a node that has been through it before: an allocator keeps some for next time.
        report.attacked = _attack_each_once(target, seed) + _attack(target, seconds / 2, seed - 1)
        reader.await_number(1000)
        report.rss_before_bytes = node.rss_bytes() if node is not None else 0
        report.attacked += _attack(target, seconds / 2, seed)
        reader.await_number(len(producer.acknowledged))
        report.rss_after_bytes = _settled_rss_bytes(node, report.rss_before_bytes) if node is not None else 0
        report.records = producer.stop()
        reader.await_number(report.records)
        report.wrongs += report.attacked.wrongs
        report.wrongs += [f"a producer saw: {event}" for event in producer.failures + producer.events]
        report.wrongs += [f"a reader saw: {event}" for event in reader.failures + reader.events]

    client.produce(busy, [Record(b"the end")])
    growth_bytes = report.rss_after_bytes - report.rss_before_bytes
    if growth_bytes > MAX_GROWTH_BYTES:
        report.wrongs.append(f"the node's memory grew by {growth_bytes >> 20} MiB")
    if node is not None and "Traceback" in node.stderr():
        report.wrongs.append("the node's log has an exception of its own")
    return report


def _attack_each_once(target: Target, seed: int) -> Attacked:
    attacked = Attacked()
    target.requests = choose_requests(Random(seed), target)
    for attack in ATTACKS:
        _attempt(attack, Random(f"{seed} {attack.__name__}"), target, attacked)
    target.release()
    return attacked


def _attack(target: Target, seconds: float, seed: int) -> Attacked:
    """In separate processes, so that they do not take the others' time."""
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        attackers = [pool.submit(_attack_in_threads, target, seconds, f"{seed} {i}") for i in range(PROCESSES)]
        return sum((attacker.result() for attacker in attackers), Attacked())


def _attack_in_threads(target: Target, seconds: float, seed: str) -> Attacked:
    attacked = Attacked()
    target.requests = choose_requests(Random(seed), target)
    deadline = monotonic() + seconds

    def go_on(number: int) -> None:
        random = Random(f"{seed} {number}")
        while monotonic() < deadline:
            (attack,) = random.choices(ATTACKS, WEIGHTS)
            _attempt(attack, random, target, attacked)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(go_on, range(THREADS)))
    target.release()
    return attacked


def _settled_rss_bytes(node: Nodes, before_bytes: int) -> int:
    """Once what the last attempts brought is done with."""
    try:
        return eventually(node.rss_bytes, lambda now_bytes: now_bytes - before_bytes <= MAX_GROWTH_BYTES, within_s=10)
    except AssertionError:
        return node.rss_bytes()


def _attempt(attack: Attack, random: Random, target: Target, attacked: Attacked) -> None:
    attacked.attempts[attack.__name__] += 1
    try:
        attack(random, target)
    except (ConnectionResetError, BrokenPipeError):
        pass  # the broker has had enough
    except (Unforgivable, OSError, EOFError) as error:
        attacked.wrongs.append(f"{attack.__name__}: {error!r}")


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(description="Fuzz a node that is at work for others.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bootstrap", help="a broker that runs; otherwise a node is started")
    options = parser.parse_args(arguments)
    if options.bootstrap is not None:
        report = fuzz(Address(options.bootstrap), options.seconds, options.seed)
    else:
        with TemporaryDirectory() as folder:
            node = NodeProcess(Path(folder), NODE_SETTINGS).start()
            try:
                report = fuzz(Address(node.bootstrap), options.seconds, options.seed, node)
                if report.wrongs:
                    print(node.stderr(), file=sys.stderr)
            finally:
                node.kill()
    print(report)
    return 1 if report.wrongs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
