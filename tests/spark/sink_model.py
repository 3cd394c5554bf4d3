"""A world for the sink's protocol: Kafka's rules of transactions in a few lines, Spark's way of running a query, and
whatever can go wrong between them. Everything that can happen next is an action, and chance chooses.

The protocol itself, and how processes choose names, are the real ones.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.sink.effects import Decide, Effect, End, ListOpen, OwnLedger, ReadLedger
from cordwood.spark.sink.ledger_entry import LedgerEntry
from cordwood.spark.sink.protocol import Steps, SweptAway, abort_batch, commit_batch, sweep_run
from cordwood.spark.sink.transactions import NamePool, Scope, TaskDone, sweeps_seen

QUERY = "query"
PARTITIONS = 2
PROCESSES = 2
LIVES = 4

Row: TypeAlias = tuple[int, int, int]
"""Batch, partition, number."""
Action: TypeAlias = Callable[[], None]


class Fenced(Exception):
    pass


class Lost(Exception):
    """A decided transaction cannot be committed."""


@dataclass
class Id:
    producer_id: int
    epoch: int = 0
    status: str = "Empty"
    rows: list[Row] = field(default_factory=list)


class Broker:
    """`bumps`: `transaction.version` 2, in which each end has its own epoch."""

    def __init__(self, *, bumps: bool) -> None:
        self.bumps = bumps
        self.ids: dict[str, Id] = {}
        self.visible: Counter[Row] = Counter()
        self.ledger: list[LedgerEntry] = []
        self.ledger_epoch = 0

    def init(self, name: str) -> LeftTransaction:
        known = self.ids.setdefault(name, Id(len(self.ids), -1))
        known.rows = []
        known.status = "Empty"
        known.epoch += 1
        return LeftTransaction(name, known.producer_id, known.epoch, self.bumps)

    def write(self, left: LeftTransaction, row: Row) -> None:
        known = self.ids[left.transactional_id]
        if known.epoch != left.epoch:
            raise Fenced
        if known.status not in ("Empty", "Ongoing") and (self.bumps or row[2] > 0):
            # Version 2 has another epoch after an end; version 1 has the partition verified.
            raise Fenced
        known.status = "Ongoing"
        known.rows.append(row)

    def end(self, left: LeftTransaction, *, commit: bool) -> None:
        known = self.ids[left.transactional_id]
        ended = "CompleteCommit" if commit else "CompleteAbort"
        if known.status == "Ongoing" and known.epoch == left.epoch:
            if commit:
                self.visible.update(known.rows)
            known.rows = []
            known.status = ended
            known.epoch += 1 if self.bumps else 0
            return
        was_committed = known.status == "CompleteCommit" and known.epoch in (left.epoch, left.epoch + 1)
        if was_committed != commit:
            raise Lost(f"{left}: {known}")

    def open(self, prefix: str) -> tuple[LeftTransaction, ...]:
        return tuple(
            LeftTransaction(name, known.producer_id, known.epoch, self.bumps)
            for name, known in self.ids.items()
            if known.status == "Ongoing" and name.startswith(prefix)
        )

    @property
    def last(self) -> LedgerEntry | None:
        return self.ledger[-1] if self.ledger else None

    def own(self) -> int:
        self.ledger_epoch += 1
        return self.ledger_epoch

    def do(self, effect: Effect, owned: int) -> Any:
        """Written by an owner of the ledger at that epoch."""
        match effect:
            case ReadLedger():
                return self.last
            case ListOpen(prefix):
                return self.open(prefix)
            case Decide(_, entry):
                if owned != self.ledger_epoch:
                    raise Fenced
                assert LedgerEntry.decode(entry.encode()) == entry
                self.ledger.append(entry)
            case End(transactions, commit):
                for left in transactions:
                    self.end(left, commit=commit)
        return None


@dataclass
class Process:
    """A Python worker: one task at a time, with its own names."""

    names: NamePool
    task: "Task | None" = None


class Task:
    """An attempt. It continues when its driver has forgotten it, or is dead."""

    def __init__(self, world: "World", process: Process, scope: Scope, batch: int, partition: int) -> None:
        self.partition = partition
        self.done: TaskDone | None = None
        self.is_over = False
        self._process = process
        self._steps = self._run(world.broker, process.names, scope, batch)
        process.task = self

    def step(self) -> None:
        try:
            next(self._steps)
        except StopIteration as stop:
            self.done = stop.value
            self.end()
        except Fenced:
            self.end()

    def end(self) -> None:
        self.is_over = True
        self._steps.close()
        if self._process.task is self:
            self._process.task = None

    def _run(self, broker: Broker, names: NamePool, scope: Scope, batch: int) -> Generator[None, None, TaskDone]:
        yield
        if broker.last is not None and broker.last.batch >= batch:
            return TaskDone(scope, None, found_decided=True)
        sweeps = 0 if broker.last is None else broker.last.sweeps
        yield
        left = broker.init(names.take(batch))
        for number in range(2):
            yield
            broker.write(left, (batch, self.partition, number))
        yield
        return TaskDone(scope, left, sweeps=sweeps)


class Sweeper:
    """Somebody stops a run, and ends what it has left open."""

    def __init__(self, world: "World", run: int) -> None:
        self._world = world
        self._steps = sweep_run(Scope(QUERY, f"run-{run}"), at_once=1)
        self._owned = -1
        self.effect: Effect = next(self._steps)
        self.is_over = False

    def step(self) -> None:
        if isinstance(self.effect, OwnLedger):
            self._owned = self._world.broker.own()
        try:
            self.effect = self._steps.send(self._world.broker.do(self.effect, self._owned))
        except StopIteration:
            self.is_over = True
        except (Fenced, Lost) as error:
            self._world.failed(error)
            self.is_over = True


class Driver:
    """One life of the query: from the first batch that Spark does not know as committed."""

    def __init__(self, world: "World", run: int) -> None:
        self._world = world
        self._broker = world.broker
        self._scope = Scope(QUERY, f"run-{run}")
        self._started_processes = 0
        self.start_processes()
        self.is_dead = False
        self.batch = world.committed + 1
        self._begin()

    def start_processes(self) -> None:
        """Also in place of those that there are: Spark ends workers that are idle."""
        numbers = range(self._started_processes, self._started_processes + PROCESSES)
        self._processes = [Process(NamePool(self._scope.prefix, f"process-{number}")) for number in numbers]
        self._started_processes += PROCESSES

    def _begin(self) -> None:
        self._tasks: dict[int, list[Task]] = {partition: [] for partition in range(PARTITIONS)}
        self._steps: Steps[Any] | None = None
        self.effect: Effect | None = None
        self._owned = -1

    def actions(self) -> Iterator[Action]:
        if self.is_dead:
            return
        free = [process for process in self._processes if process.task is None]
        if self._steps is not None:
            yield self._go_on
            return
        for partition, attempts in self._tasks.items():
            if free and len(attempts) < 2:
                yield lambda partition=partition: self._start(free[0], partition)  # type: ignore[misc]
        if all(any(task.done for task in attempts) for attempts in self._tasks.values()):
            yield self._commit
        elif any(len(attempts) == 2 and all(task.is_over for task in attempts) for attempts in self._tasks.values()):
            # As often as Spark tries.
            yield self._abort
        if not any(self._tasks.values()):
            yield self.start_processes

    def accidents(self) -> Iterator[Action]:
        if self.is_dead:
            return
        yield self.die
        if self._steps is not None:
            yield self._do_and_die
            if self.batch >= 0:
                yield self._do_and_fail
                yield self._abort

    def die(self) -> None:
        self.is_dead = True

    def _start(self, process: Process, partition: int) -> None:
        task = Task(self._world, process, self._scope, self.batch, partition)
        self._tasks[partition].append(task)
        self._world.tasks.append(task)

    def _messages(self) -> list[TaskDone]:
        """The first attempt of each partition that reported."""
        told = [next((task.done for task in attempts if task.done), None) for attempts in self._tasks.values()]
        return [done for done in told if done is not None]

    def _commit(self) -> None:
        messages = self._messages()
        ours = [done.transaction for done in messages if done.transaction]
        found_decided = any(done.found_decided for done in messages)
        self._steps = commit_batch(
            self._scope,
            self.batch,
            ours,
            begun_at=sweeps_seen(messages),
            found_decided=found_decided,
            at_once=1,
        )
        self.effect = next(self._steps)

    def _abort(self) -> None:
        """Tasks have failed, or the commit has: Spark does not say which."""
        ours = [done.transaction for done in self._messages() if done.transaction]
        self._steps = abort_batch(self._scope, self.batch, ours, at_once=1)
        self.batch = -1
        self._owned = -1
        try:
            self.effect = next(self._steps)
        except StopIteration:
            self.die()

    def _go_on(self) -> None:
        assert self._steps is not None
        assert self.effect is not None
        try:
            self.effect = self._steps.send(self._do(self.effect))
        except StopIteration:
            if self.batch < 0:
                self.die()
                return
            self._world.committed = max(self._world.committed, self.batch)
            self.batch += 1
            self._begin()
        except (Fenced, Lost, SweptAway) as error:
            self._world.failed(error)
            if self.batch < 0:
                self.die()
            else:
                self._abort()

    def _do_and_die(self) -> None:
        self._do_unheard()
        self.die()

    def _do_and_fail(self) -> None:
        self._do_unheard()
        self._abort()

    def _do_unheard(self) -> None:
        """It is done, but the driver does not get the answer."""
        assert self.effect is not None
        try:
            self._do(self.effect)
        except (Fenced, Lost) as error:
            self._world.failed(error)

    def _do(self, effect: Effect) -> Any:
        if isinstance(effect, OwnLedger):
            self._owned = self._broker.own()
        return self._broker.do(effect, self._owned)


class World:
    def __init__(self, *, bumps: bool) -> None:
        self.broker = Broker(bumps=bumps)
        self.committed = -1
        """Spark's own log of batches that are over."""
        self.drivers: list[Driver] = []
        self.tasks: list[Task] = []
        self.sweepers: list[Sweeper] = []
        self.lost: list[Lost] = []
        self.swept_away: list[SweptAway] = []

    def play(self, chance: Random, steps: int) -> None:
        """Any number of drivers at once, killed at any point; tasks of all of them."""
        accidents_per_step = chance.choice([0.0, 0.02, 0.05, 0.2])
        zombies_per_step = chance.choice([0.05, 0.3, 0.5])
        for _ in range(steps):
            alive = [driver for driver in self.drivers if not driver.is_dead]
            if chance.random() < accidents_per_step:
                actions = [action for driver in alive for action in driver.accidents()]
                if len(self.drivers) < LIVES:
                    actions += [self.start_driver] * (len(actions) + 1)
                if self.drivers:
                    run = chance.randrange(len(self.drivers))
                    actions += [lambda run=run: self.sweepers.append(Sweeper(self, run))] * 2  # type: ignore[misc]
            elif chance.random() < zombies_per_step:
                actions = [task.step for task in self.tasks if not task.is_over]
            else:
                actions = [action for driver in alive for action in driver.actions()]
                actions += [sweeper.step for sweeper in self.sweepers if not sweeper.is_over]
            if not alive and len(self.drivers) < LIVES:
                actions = [self.start_driver]
            if actions:
                chance.choice(actions)()
            self.check()

    def finish(self, chance: Random, batches: int) -> None:
        """One driver is left, with the tasks of those before it still about; then nothing."""
        for driver in self.drivers:
            driver.die()
        for sweeper in self.sweepers:
            sweeper.is_over = True
        self.lost = []
        self.start_driver()
        last = self.drivers[-1]
        zombies = [task for task in self.tasks if not task.is_over]
        until = self.committed + batches
        while self.committed < until:
            alive = [task for task in zombies if not task.is_over]
            if alive and chance.random() < 0.5:
                chance.choice(alive).step()
            self.drive(last)
            self.check()
        for task in zombies:
            while not task.is_over:
                task.step()
        until = self.committed + 1
        while self.committed < until:
            self.drive(last)
        self.check()
        assert not self.lost

    def bury(self) -> None:
        """All drivers are dead, and their tasks at their end."""
        for driver in self.drivers:
            driver.die()
        for task in self.tasks:
            while not task.is_over:
                task.step()

    def start_driver(self) -> None:
        self.drivers.append(Driver(self, len(self.drivers)))

    def check(self) -> None:
        twice = [row for row, count in self.broker.visible.items() if count > 1]
        assert not twice, f"visible twice: {twice}"

    def check_all_visible(self) -> None:
        expected = {
            (batch, partition, number)
            for batch in range(self.committed + 1)
            for partition in range(PARTITIONS)
            for number in range(2)
        }
        assert set(self.broker.visible) == expected

    def failed(self, error: Exception) -> None:
        if isinstance(error, Lost):
            self.lost.append(error)
        elif isinstance(error, SweptAway):
            self.swept_away.append(error)

    def drive_to(self, driver: Driver, batch: int, kind: type) -> None:
        """Until the driver is about to have this done, of this batch."""
        while not (driver.batch == batch and isinstance(driver.effect, kind)):
            self.drive(driver)

    def drive_past(self, driver: Driver, batch: int) -> None:
        while driver.batch <= batch:
            self.drive(driver)

    def drive(self, driver: Driver) -> None:
        """Straight on: attempts are started, run to their end, and committed."""
        assert not driver.is_dead, self.lost
        own = [task for process in driver._processes if (task := process.task) is not None]
        if own:
            own[0].step()
            return
        actions = list(driver.actions())
        commits = [action for action in actions if action == driver._commit]
        (commits or actions)[0]()
