"""One run: a node that is crashed and started again, its clients, and the checks of their observations.

result = run_seed(17, "groups")
result.violations, result.digest
"""

from dataclasses import dataclass
from random import Random

from cordwood.sim.clients.client import Run
from cordwood.sim.histories.groups import CommitOutcome
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.histories.transactions import Fate
from cordwood.sim.virtual.connection import NetworkOdds

from .checks import Violation, violations
from .cluster import Cluster
from .log_lines import log_lines
from .machine import Machine
from .workloads import WORKLOADS, Workload
from .world import World

# Far more than a run takes: one that hangs ends there.
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    promise: Promise
    violations: list[Violation]
    digest: str
    events: int
    # The starts, faults and leaders of a cluster.
    timeline: str
    tail: str
    history: History

    def summary(self) -> str:
        history = self.history
        acknowledged = sum(1 for _ in history.acknowledged())
        parts = [
            f"{acknowledged} of {len(history.sends)} sends acknowledged",
            f"{sum(len(read.records) for read in history.reads)} records read",
        ]
        if commits := history.groups.commits:
            done = sum(commit.outcome is CommitOutcome.ACKNOWLEDGED for commit in commits)
            parts.append(f"{done} of {len(commits)} offsets committed")
        if transactions := history.transactions.transactions:
            done = sum(transaction.fate is Fate.COMMITTED for transaction in transactions)
            parts.append(f"{done} of {len(transactions)} transactions committed")
        if registrations := history.registry.registrations:
            parts.append(f"{len(registrations)} schemas registered")
        return f"{', '.join(parts)}, {self.events} events; {self.promise.value}"


def _run_of(workload: Workload, world: World, history: History, source: Random) -> Run:
    if workload.layout is not None:
        layout = workload.layout(source)
        cluster = Cluster(world, layout, workload.settings(history, source))
        return Run(world, next(iter(cluster.brokers.values())), history, cluster)
    roots = source.choice((("/data",), ("/data", "/more"), ("/a", "/b", "/c")))
    return Run(world, Machine(world, "broker", workload.settings(history, source), roots), history)


def run_seed(seed: int, name: str = "node") -> Result:
    workload = WORKLOADS[name]
    source = Random(f"{seed}/workload")
    promise = source.choices(list(workload.promises), weights=list(workload.promises.values()))[0]
    world = World(seed, odds=NetworkOdds(loss=source.choice((0.0, 0.002, 0.02))), limit_s=_LIMIT_S, pauses=True)
    history = History(promise)
    run = _run_of(workload, world, history, source)
    found: list[Violation] = []
    with log_lines(world.trace, history.warnings) as failures:
        try:
            world.run(workload.main(run, source))
        except Exception as error:  # noqa: BLE001  # any error is a finding of the seed
            found.append(Violation("a run ends", f"{type(error).__name__}: {error}"))
    found += [Violation("a handler does not fail", failure) for failure in failures]
    found += [Violation("a client does not fail", failure) for failure in history.client_failures]
    history.power_losses = [end.incarnation for end in run.machine.ends if end.power_lost]
    found += violations(history, workload.checks)
    timeline = "" if run.cluster is None else f"{run.cluster.layout}\n{world.trace.timeline()}"
    return Result(seed, promise, found, world.trace.digest, world.trace.events, timeline, world.trace.tail(), history)
