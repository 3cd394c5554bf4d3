"""A run: a cluster under load, one fault after the other, and the judgement of all histories at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol

from chaos.checks import Kind, Log, Violation, check_same_reads, check_seen, check_transformed, check_writes
from chaos.cluster import ChaosCluster, DidNotHappen, until
from chaos.faults import Fault, Scene
from chaos.gaps import GapMeter
from chaos.readers import CommittedOffsets, Member, Sightings
from chaos.reading import read_with_cordwood, read_with_librdkafka
from chaos.replicas import check_replicas, replicas_of
from chaos.report import Outcome
from chaos.transformer import TransformerSpec
from chaos.transformers import Transformer
from chaos.writers import CordwoodWriting, History, LibrdkafkaWriting, Writer
from cordwood import Admin, NewTopic

LIBRARIES = ("librdkafka", "cordwood")
PARTITIONS = 6
_PATIENCE_S = 240.0


class _Part(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The amount of each kind of load."""

    per_second: int = 120
    transformers: int = 2
    members: int = 2
    stall_s: float = 45.0


_DEFAULT_PLAN = LoadPlan()


class Load:
    """For each library a topic with a writer, a group that reads it, and one that transforms it into another topic."""

    def __init__(
        self, bootstrap: str, folder: Path, seed: int, plan: LoadPlan = _DEFAULT_PLAN, prefix: str = ""
    ) -> None:
        self.bootstrap = bootstrap
        kinds = ("numbers", "transformed") if plan.transformers else ("numbers",)
        self.topics = {f"{prefix}{name}-{kind}": PARTITIONS for name in LIBRARIES for kind in kinds}
        self._prefix = prefix
        self.meters: dict[str, GapMeter] = {}
        self.writers: list[Writer] = []
        self.sightings: list[Sightings] = []
        self.members: list[Member] = []
        self.transformers: list[Transformer] = []
        self._plan = plan
        folder.mkdir(parents=True, exist_ok=True)
        for name in LIBRARIES:
            self._plan_library(name, folder, seed)
        self.commits = CommittedOffsets(
            bootstrap,
            [*(each.group for each in self.sightings), *sorted({each.spec.group for each in self.transformers})],
        )

    def _plan_library(self, name: str, folder: Path, seed: int) -> None:
        source, sink = f"{self._prefix}{name}-numbers", f"{self._prefix}{name}-transformed"
        meter = self.meters[name] = GapMeter(PARTITIONS)
        history = History(source, PARTITIONS)
        writing = LibrdkafkaWriting if name == "librdkafka" else CordwoodWriting
        connect = partial(writing, self.bootstrap, history, meter)
        self.writers.append(Writer(f"{name} writer", connect, history, self._plan.per_second))
        sightings = Sightings(f"{self._prefix}{name}-readers", source)
        self.sightings.append(sightings)
        for number in range(self._plan.members):
            self.members.append(Member(f"{name} reader {number}", name, self.bootstrap, sightings))
        if self._plan.transformers:
            meter = self.meters[f"{name} transactions"] = GapMeter(PARTITIONS)
        for number in range(self._plan.transformers):
            spec = TransformerSpec(
                library=name,
                bootstrap=self.bootstrap,
                group=f"{self._prefix}{name}-transformers",
                transactional_id=f"{self._prefix}{name}-{number}",
                source=source,
                sink=sink,
                seed=seed + number,
                stall_s=self._plan.stall_s,
            )
            self.transformers.append(Transformer(spec, meter, folder / f"{spec.transactional_id}.log"))

    def start(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions) for name, partitions in self.topics.items()])
            admin.until_topics_led(list(self.topics))
        parts: list[_Part] = [*self.writers, *self.members, *self.transformers]
        for part in parts:
            part.start()
        self.await_progress()

    def await_progress(self) -> None:
        """Until every partition has a new acknowledgement, and every library a new transaction."""
        acknowledged = [[len(each.history.acknowledged[part]) for part in range(PARTITIONS)] for each in self.writers]
        commits = {name: self._commits(name) for name in LIBRARIES}

        def has_moved() -> bool:
            return all(
                len(writer.history.acknowledged[part]) > before[part]
                for writer, before in zip(self.writers, acknowledged, strict=True)
                for part in range(PARTITIONS)
            ) and all(self._commits(name) > before or not self._plan.transformers for name, before in commits.items())

        until(has_moved, "all loads go on", _PATIENCE_S)

    def finish(self) -> list[Violation]:
        """Stops the load, once readers and transformers have come to the end of what was written."""
        found: list[Violation] = []
        for writer in self.writers:
            writer.stop()
            found += [Violation(Kind.CLIENT_ERROR, f"{writer.name}: {text}") for text in writer.history.failures[:5]]
        for sightings, writer in zip(self.sightings, self.writers, strict=True):
            if self._plan.members:
                wanted = writer.history.count
                found += _liveness(partial(sightings.has, wanted), f"{sightings.group} have read everything")
        for library, writer in zip(LIBRARIES, self.writers, strict=True):
            if not self._plan.transformers:
                continue
            is_transformed = partial(self._is_transformed, library, writer.history)
            found += _liveness(is_transformed, f"{library}: everything is transformed")
        readers: list[_Part] = [*self.members, *self.transformers]
        for reader in readers:
            reader.stop()
        for sightings in self.sightings:
            found += sightings.violations
        return found

    def judge(self) -> list[Violation]:
        """The current contents of the topics."""
        found: list[Violation] = []
        logs: dict[str, dict[int, Log]] = {}
        for topic, partitions in self.topics.items():
            logs[topic] = read_with_librdkafka(self.bootstrap, topic, partitions)
            again = read_with_cordwood(self.bootstrap, topic, partitions)
            for part in range(partitions):
                found += check_same_reads(f"{topic}-{part}", logs[topic][part], again[part])
        for name, writer, sightings in zip(LIBRARIES, self.writers, self.sightings, strict=True):
            source, sink = logs[writer.history.topic], logs.get(f"{self._prefix}{name}-transformed")
            for part in range(PARTITIONS):
                place = f"{writer.history.topic}-{part}"
                acknowledged = writer.history.acknowledged[part]
                found += check_writes(place, acknowledged, source[part], writer.history.sent)
                if self._plan.members:
                    found += check_seen(place, sightings.values[part], source[part])
                if sink is not None:
                    found += check_transformed(f"{self._prefix}{name}-transformed-{part}", source[part], sink[part])
        return found

    def kill(self) -> None:
        """Ends the processes of the load; records that were not judged are lost."""
        for each in self.transformers:
            each.kill()

    def _commits(self, library: str) -> int:
        return sum(each.commits for each in self.transformers if each.spec.library == library)

    def _is_transformed(self, library: str, history: History) -> bool:
        """By the offsets that its group has committed."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            group = f"{self._prefix}{library}-transformers"
            committed = admin.list_consumer_group_offsets([group], require_stable=True)[group]
        ends = {part.partition: offset.offset for part, offset in committed.items() if part.topic == history.topic}
        return all(
            ends.get(part, 0) > max((offset for offset, _ in history.acknowledged[part]), default=-1)
            for part in range(history.partitions)
        )


@dataclass
class Run:
    cluster: ChaosCluster
    load: Load
    scene: Scene
    say: Callable[[str], None] = print
    outcomes: list[Outcome] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    def strike(self, fault: Fault) -> Outcome:
        """One fault, until the cluster is whole again and every load continues."""
        for meter in self.load.meters.values():
            meter.begin()
        detail = fault.run(self.scene)
        healed_at = time.monotonic()
        self.violations += self.cluster.heal()
        self.cluster.await_in_sync()
        in_sync_s = time.monotonic() - healed_at
        self.load.await_progress()
        gaps = {name: meter.end() for name, meter in self.load.meters.items()}
        self.violations += self.load.commits.check()
        outcome = Outcome(fault.name, detail, gaps, in_sync_s)
        self.outcomes.append(outcome)
        return outcome

    def judge(self) -> list[Violation]:
        """Ends the load; everything that was violated during the run, and at its end."""
        self.violations += self.load.finish()
        self.violations += self.load.judge()
        self.cluster.await_in_sync()
        self.violations += await_equal_replicas(self.cluster)
        return self.violations


def await_equal_replicas(cluster: ChaosCluster) -> list[Violation]:
    """Followers may be a moment behind: differences that stay."""
    found: list[Violation] = []

    def are_equal() -> bool:
        found.clear()
        replicas = replicas_of({node.id: node.disks for node in cluster.nodes.values()})
        for partition, directories in sorted(replicas.items()):
            found.extend(check_replicas(partition, directories))
        return not found

    try:
        until(are_equal, "replicas are equal", 20.0)
    except DidNotHappen:
        return list(found)
    return []


def shuffled(faults: Sequence[Fault], random: Random) -> Iterator[Fault]:
    """Each of them once, in another order every time."""
    while True:
        yield from random.sample(faults, len(faults))


def _liveness(is_so: Callable[[], bool], what: str) -> list[Violation]:
    try:
        until(is_so, what, _PATIENCE_S)
    except DidNotHappen as error:
        return [Violation(Kind.LIVENESS, str(error))]
    return []
