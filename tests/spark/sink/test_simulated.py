"""The sink against a real node, in virtual time: lives of a driver and its tasks, killed at random moments, while the
node loses its power and the network loses connections. In the end read_committed consumers see every row once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random

import pytest

from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.admin.transactions import describe_transactions, list_transactions
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import ClientError
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.spark.errors import SparkError
from cordwood.spark.sink.driver import TakenOver, TransactionLost, perform
from cordwood.spark.sink.ledger import Ledger
from cordwood.spark.sink.options import SinkOptions, read_options
from cordwood.spark.sink.outlet import Outlet
from cordwood.spark.sink.points import Point
from cordwood.spark.sink.protocol import SweptAway, abort_batch, commit_batch, sweep_job, sweep_run
from cordwood.spark.sink.transactions import NamePool, Scope, TaskDone, batch_job, sweeps_seen

TOPIC = "t"
PARTITIONS = 2
TASKS = 2
ROWS_PER_TASK = 3
BATCHES = 6
_NODE = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
_TWO_PHASES = {"transaction.two.phase.commit.enable": "true"}
_LOSSY = NetworkOdds(loss=0.002)


class Stage:
    def __init__(self, world: World, node: Machine, seed: int, bootstrap: Sequence[Address] = ()) -> None:
        """`bootstrap` is that of a cluster which `node` is one of."""
        self.world = world
        self.node = node
        self.chance = Random(seed)
        self.bootstrap = bootstrap or [Address(node.name, PORT)]
        servers = ",".join(map(str, self.bootstrap))
        self.options = read_options({"kafka.bootstrap.servers": servers, "topic": TOPIC}, "a test")
        self.committed_batches = 0
        self.lives = 0
        self._hosts = 0

    def outlet(self, options: SinkOptions | None = None) -> Outlet:
        self._hosts += 1
        return Outlet(
            self.options if options is None else options,
            network=self.world.network.host(f"client-{self._hosts}"),
            clock=self.world.clock,
            random=SeededRandom(self._hosts),
        )

    async def client(self) -> Client:
        self._hosts += 1
        network = self.world.network.host(f"client-{self._hosts}")
        while True:
            try:
                return await Client.connect(self.bootstrap, network=network)
            except ClientError:
                continue

    async def visible(self) -> Counter[str]:
        """Once what has ended has all its markers."""
        async with await self.client() as client:
            while await list_transactions(client, states=["PrepareCommit", "PrepareAbort"]):
                await asyncio.sleep(0.01)
        self._hosts += 1
        consumer = Consumer(
            settings=ConsumerSettings(
                isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest"
            ),
            bootstrap=self.bootstrap,
            network=self.world.network.host(f"client-{self._hosts}"),
            clock=self.world.clock,
            random=SeededRandom(self._hosts),
        )
        seen: Counter[str] = Counter()
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        async with consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    seen.update(record.value.decode() for record in records)
        return seen

    async def open(self) -> set[str]:
        async with await self.client() as client:
            return {told.transactional_id for told in await list_transactions(client, states=["Ongoing"])}

    async def life(self) -> None:
        """A run of the query: batch after batch, until there are no more. Raises what ends it."""
        self.lives += 1
        scope = Scope("query", f"run-{self.lives}")
        writing, deciding = self.outlet(), self.outlet()
        names = NamePool(scope.prefix, f"process-{self.lives}")
        while self.committed_batches < BATCHES:
            batch = self.committed_batches
            done = [await write(writing, names, scope, batch, task) for task in range(TASKS)]
            ours = [task.transaction for task in done if task.transaction is not None]
            found_decided = any(task.found_decided for task in done)
            try:
                steps = commit_batch(
                    scope, batch, ours, begun_at=sweeps_seen(done), found_decided=found_decided, at_once=1
                )
                await perform(deciding, steps, nothing)
            except (ClientError, SparkError):
                # As Spark does.
                await perform(deciding, abort_batch(scope, batch, ours), nothing)
                raise
            # This is Spark's own log of commits.
            self.committed_batches = batch + 1


async def write(outlet: Outlet, names: NamePool, scope: Scope, batch: int, task: int) -> TaskDone:
    last = await (await outlet.ledger()).read(scope.query, latest=False)
    if last is not None and last.batch >= batch:
        return TaskDone(scope, None, found_decided=True)
    producer = await outlet.writing_as(names.take(batch))
    await producer.begin_transaction()
    for row in range(ROWS_PER_TASK):
        await producer.send(TOPIC, f"{batch}/{task}/{row}", partition=row % PARTITIONS)
    sweeps = 0 if last is None else last.sweeps
    return TaskDone(scope, await producer.leave_transaction(), ROWS_PER_TASK, sweeps=sweeps)


ALL = Counter(
    f"{batch}/{task}/{row}" for batch in range(BATCHES) for task in range(TASKS) for row in range(ROWS_PER_TASK)
)


def nothing(point: Point) -> None:
    return None


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    seed: int = 1,
    settings: dict[str, str] | None = None,
    odds: NetworkOdds | None = None,
) -> None:
    world = World(seed, odds=odds, limit_s=1_000_000, pauses=True)

    async def main() -> None:
        node = Machine(world, "broker", {**_NODE, **(settings or {})})
        assert await node.start()
        stage = Stage(world, node, seed)
        async with await stage.client() as client:
            await create_topics(client, [NewTopic(TOPIC, PARTITIONS)])
        await scene(stage)
        await node.stop()

    world.run(main())


@pytest.mark.parametrize("seed", range(12))
def test_every_row_is_visible_once_despite_kills_at_any_moment(seed: int) -> None:
    async def scene(stage: Stage) -> None:
        while stage.committed_batches < BATCHES:
            process = stage.world.process(f"driver-{stage.lives}")
            life = process.start(stage.life())
            longest_s = stage.chance.choice([0.1, 0.5, 2.0])
            await asyncio.wait([life], timeout=stage.chance.uniform(0, longest_s) if stage.lives < 20 else None)
            if not life.done():
                process.kill()
                if stage.chance.random() < 0.5:
                    # The process that has stopped it ends its open transactions, as far as possible.
                    with suppress(ClientError):
                        await perform(stage.outlet(), sweep_run(Scope("query", f"run-{stage.lives}")), nothing)
            elif isinstance(error := life.exception(), BaseException):
                assert isinstance(error, ClientError | SparkError), error
                assert not isinstance(error, TransactionLost), error
            if stage.chance.random() < 0.2:
                stage.node.lose_power() if stage.chance.random() < 0.5 else stage.node.kill()
                while not await stage.node.start():
                    pass
        assert await stage.open() == set()
        assert await stage.visible() == ALL
        assert stage.lives > 1

    play(
        scene,
        seed=seed,
        odds=_LOSSY,
        settings={"log.flush.interval.messages": "1", **(_TWO_PHASES if seed % 2 else {})},
    )


def test_with_two_phases_a_prepared_batch_outlives_any_timeout() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        names = NamePool(scope.prefix, "process")
        outlet = stage.outlet()
        done = [await write(outlet, names, scope, 0, task) for task in range(TASKS)]
        await outlet.close()
        await asyncio.sleep(2_000)
        ours = [task.transaction for task in done if task.transaction is not None]
        await perform(stage.outlet(), commit_batch(scope, 0, ours), nothing)
        assert sum((await stage.visible()).values()) == TASKS * ROWS_PER_TASK

    play(scene, settings=_TWO_PHASES)


def test_without_two_phases_a_late_commit_raises_an_error() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        left = (await write(stage.outlet(), NamePool(scope.prefix, "process"), scope, 0, 0)).transaction
        assert left is not None
        await asyncio.sleep(1_000)
        with pytest.raises(TransactionLost, match=f"the first is {left.transactional_id} of producer"):
            await perform(stage.outlet(), commit_batch(scope, 0, [left]), nothing)

    play(scene)


def test_without_two_phases_a_transaction_has_the_longest_time_that_brokers_allow() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        left = (await write(stage.outlet(), NamePool(scope.prefix, "process"), scope, 0, 0)).transaction
        assert left is not None
        async with await stage.client() as client:
            told = (await describe_transactions(client, [left.transactional_id]))[left.transactional_id]
        assert not isinstance(told, Exception)
        assert told.timeout_ms == 900_000

    play(scene)


def test_the_timeout_applies_to_one_phase_transactions_only() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        given = {"kafka.bootstrap.servers": f"{stage.node.name}:{PORT}", "kafka.transaction.timeout.ms": "1000"}
        outlet = stage.outlet(read_options(given, "a test"))
        left = (await write(outlet, NamePool(scope.prefix, "process"), scope, 0, 0)).transaction
        assert left is not None
        await asyncio.sleep(100)
        await perform(outlet, commit_batch(scope, 0, [left]), nothing)
        assert sum((await stage.visible()).values()) == ROWS_PER_TASK

    play(scene, settings=_TWO_PHASES)


def test_a_timeout_above_the_brokers_limit_is_reported_in_one_sentence() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        with pytest.raises(SparkError, match=r"set kafka\.transaction\.timeout\.ms to their transaction\.max"):
            await write(stage.outlet(), NamePool(scope.prefix, "process"), scope, 0, 0)

    play(scene, settings={"transaction.max.timeout.ms": "60000"})


def test_a_decision_of_another_query_that_hangs_is_waited_for() -> None:
    """Committed records behind an open transaction are not readable yet; to take them for missing would be to decide
    twice."""

    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        ledger_outlet = stage.outlet()
        ledger = await ledger_outlet.ledger()
        partition = await ledger.partition_of(scope.query)
        other = await stage.outlet().deciding_as("cordwood-spark/other/ledger")
        await other.begin_transaction()
        await other.send_and_wait(partition.topic, b"{}", b"other", partition=partition.partition)
        await perform(stage.outlet(), commit_batch(scope, 0, []), nothing)
        entry = await (await stage.outlet().ledger()).read(scope.query, latest=True)
        assert entry is not None
        assert entry.batch == 0

    play(scene)


def test_a_name_of_the_ledger_that_is_taken_over_fences_the_older_driver_off() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        older = commit_batch(scope, 0, [])
        outlet = stage.outlet()
        await outlet.ledger()

        async def overtaken() -> None:
            await perform(stage.outlet(), commit_batch(Scope("query", "newer"), 0, []), nothing)

        overtaking: list[asyncio.Task[None]] = []

        def reached(point: Point) -> None:
            if point is Point.BEFORE_DECISION:
                overtaking.append(asyncio.get_running_loop().create_task(overtaken()))

        # The older one halts before its decision, until the newer one has taken its own.
        gate = _Gate(outlet, overtaking)
        with pytest.raises(ClientError):
            await perform(gate, older, reached)
        await overtaking[0]
        entry = await (await stage.outlet().ledger()).read("query", latest=True)
        assert entry is not None
        assert entry.run == "newer"

    play(scene)


class _Gate(Outlet):
    """Waits for others once it is asked for its ledger after the point."""

    def __init__(self, outlet: Outlet, awaited: "list[asyncio.Task[None]]") -> None:
        self.__dict__.update(outlet.__dict__)
        self._awaited = awaited

    async def ledger(self) -> Ledger:
        for task in self._awaited:
            await task
        return await super().ledger()


def test_sweeping_a_stopped_run_removes_undecided_writes_and_keeps_decided_ones() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        names = NamePool(scope.prefix, "process")
        writing, deciding = stage.outlet(), stage.outlet()
        done = [await write(writing, names, scope, 0, task) for task in range(TASKS)]
        ours = [task.transaction for task in done if task.transaction is not None]

        def stopped(point: Point) -> None:
            if point is Point.BETWEEN_ENDS:
                raise SparkError("stopped")

        with pytest.raises(SparkError, match="stopped"):
            await perform(deciding, commit_batch(scope, 0, ours, at_once=1), stopped)
        await write(writing, names, scope, 1, 0)
        assert len(await stage.open()) == 2, "one of two decided ones, and one of the next batch"
        assert await perform(stage.outlet(), sweep_run(scope), nothing) == 1
        assert await stage.open() == set()
        assert await stage.visible() == Counter(row for row in ALL if row.startswith("0/"))
        # The next life continues from there.
        stage.committed_batches = 1
        await stage.life()
        assert await stage.visible() == ALL

    play(scene)


def test_a_stopped_job_is_swept() -> None:
    async def scene(stage: Stage) -> None:
        job, other = batch_job(), batch_job()
        for scope in (job, other):
            producer = await stage.outlet().writing_as(f"{scope.prefix}process/0")
            await producer.begin_transaction()
            await producer.send(TOPIC, "row", partition=0)
            await producer.leave_transaction()
        await perform(stage.outlet(), sweep_job(job), nothing)
        assert await stage.open() == {f"{other.prefix}process/0"}

    play(scene)


def test_open_transactions_of_lost_attempts_are_aborted_with_the_next_decision() -> None:
    async def scene(stage: Stage) -> None:
        scope = Scope("query", "run")
        lost = (await write(stage.outlet(), NamePool(scope.prefix, "lost"), scope, 0, 0)).transaction
        won = (await write(stage.outlet(), NamePool(scope.prefix, "won"), scope, 0, 0)).transaction
        assert lost is not None
        assert won is not None
        await perform(stage.outlet(), commit_batch(scope, 0, [won]), nothing)
        async with await stage.client() as client:
            listed = {told.transactional_id: told.state for told in await list_transactions(client)}
        assert listed[lost.transactional_id] == "CompleteAbort"
        assert listed[won.transactional_id] == "CompleteCommit"
        assert sum((await stage.visible()).values()) == ROWS_PER_TASK

    play(scene)


class _Killed(BaseException):
    pass


def test_orphans_of_a_driver_that_died_before_its_sweep_end_when_its_last_batch_is_replayed() -> None:
    async def scene(stage: Stage) -> None:
        scope, again = Scope("query", "run"), Scope("query", "again")
        orphan = (await write(stage.outlet(), NamePool(scope.prefix, "lost"), scope, 0, 0)).transaction
        won = (await write(stage.outlet(), NamePool(scope.prefix, "won"), scope, 0, 0)).transaction
        assert orphan is not None
        assert won is not None

        def dies(point: Point) -> None:
            if point is Point.BETWEEN_ENDS:
                raise _Killed

        with pytest.raises(_Killed):
            await perform(stage.outlet(), commit_batch(scope, 0, [won]), dies)
        assert await stage.open() == {orphan.transactional_id}
        replayed = await write(stage.outlet(), NamePool(again.prefix, "process"), again, 0, 0)
        assert replayed.found_decided
        await perform(stage.outlet(), commit_batch(again, 0, [], found_decided=True), nothing)
        assert await stage.open() == set()
        # The next batch begins at the new number, and is decided.
        following = await write(stage.outlet(), NamePool(again.prefix, "process"), again, 1, 0)
        assert following.transaction is not None
        await perform(
            stage.outlet(), commit_batch(again, 1, [following.transaction], begun_at=sweeps_seen([following])), nothing
        )
        assert sum((await stage.visible()).values()) == 2 * ROWS_PER_TASK

    play(scene)


def test_transactions_swept_by_another_driver_cannot_be_committed() -> None:
    async def scene(stage: Stage) -> None:
        ahead, behind = Scope("query", "ahead"), Scope("query", "behind")
        await perform(stage.outlet(), commit_batch(ahead, 0, []), nothing)
        task = await write(stage.outlet(), NamePool(ahead.prefix, "process"), ahead, 1, 0)
        assert task.transaction is not None
        await perform(stage.outlet(), commit_batch(behind, 0, []), nothing)
        assert await stage.open() == set()
        steps = commit_batch(ahead, 1, [task.transaction], begun_at=sweeps_seen([task]))
        with pytest.raises(SweptAway):
            await perform(stage.outlet(), steps, nothing)
        assert await stage.visible() == Counter()

    play(scene)


@pytest.mark.parametrize("settings", [{}, _TWO_PHASES], ids=["one phase", "two phases"])
def test_a_superseded_driver_that_replays_a_batch_gets_an_error(
    settings: dict[str, str],
) -> None:
    async def scene(stage: Stage) -> None:
        ahead, behind = Scope("query", "ahead"), Scope("query", "behind")
        writing, names = stage.outlet(), NamePool(ahead.prefix, "process")
        first = await write(writing, names, ahead, 0, 0)
        assert first.transaction is not None
        await perform(stage.outlet(), commit_batch(ahead, 0, [first.transaction]), nothing)
        second = await write(writing, names, ahead, 1, 0)
        assert second.transaction is not None
        assert second.transaction.transactional_id == first.transaction.transactional_id
        with pytest.raises(TakenOver, match="another driver of this query has committed the batch"):
            await perform(stage.outlet(), commit_batch(behind, 0, [], found_decided=True), nothing)
        # The one that is ahead has lost nothing by it.
        steps = commit_batch(ahead, 1, [second.transaction], begun_at=sweeps_seen([second]))
        await perform(stage.outlet(), steps, nothing)
        assert sum((await stage.visible()).values()) == 2 * ROWS_PER_TASK

    play(scene, settings=settings)
