"""Members of both protocols that come, go, hang and die, on a network that loses connections and a node that crashes.

Each member works on the partitions that it has: it commits one more than it found, and again. Nothing that was
committed is lost or done again, and in the end the members that are left share all partitions.
"""

import asyncio
from random import Random

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.events import Assign
from cordwood.client.errors import ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.sim.virtual.connection import NetworkOdds
from tests.client.group_members import ALL, Group, Member, play

ODDS = NetworkOdds(loss=0.003, late_notice_s=1.0)
MEMBERS = 4
DURATION_S = 150.0


class Work:
    """The known committed progress of each partition."""

    def __init__(self) -> None:
        self.done = dict.fromkeys(ALL, 0)
        self.commits = 0

    async def of(self, member: Member) -> None:
        while member.is_alive:
            await asyncio.sleep(0.5)
            mine = {part: OffsetAndMetadata(at.offset + 1) for part, at in member.position.items()}
            if not mine:
                continue
            try:
                await member.commits.commit(mine, 5)
            except ClientError:
                # It may have been done or not; what is true is known when the partition is assigned next.
                continue
            self.commits += 1
            for part, at in mine.items():
                self.done[part] = max(self.done[part], at.offset)
                if part in member.position:
                    member.position[part] = at

    def check(self, part: TopicPartition, found: int, known: int) -> None:
        assert found >= known, f"{part}: {known} was committed, and {found} is found"


class Application(Member):
    work: Work

    async def assigned(self, step: Assign) -> None:
        known = {part: self.work.done[part] for part in step.added}
        await super().assigned(step)
        for part in step.added & self.position.keys():
            self.work.check(part, self.position[part].offset, known[part])


async def come(group: Group, source: Random, work: Work, number: int) -> None:
    instance_id = f"i{number}" if source.random() < 0.3 else None
    member = await group.member(
        f"m{number}",
        source.choice(["consumer", "classic"]),
        kind=Application,
        group_instance_id=instance_id,
        max_poll_interval_ms=source.choice([10_000, 30_000]),
        session_timeout_ms=10_000,
        partition_assignment_strategy=["cooperative-sticky"],
        enable_auto_commit=False,
        request_timeout_ms=5_000,
    )
    assert isinstance(member, Application)
    member.work = work
    member.jobs.append(asyncio.ensure_future(work.of(member)))


async def go(group: Group, source: Random, work: Work) -> None:
    member = source.choice(group.members)
    match source.choice(["stop", "kill", "stall"]):
        case "stop":
            group.members.remove(member)
            await member.stop()
        case "kill":
            group.members.remove(member)
            await member.kill()
        case "stall":
            await member.stall()
            await asyncio.sleep(source.uniform(0, 40))
            member.resume()
            member.jobs.append(asyncio.ensure_future(work.of(member)))


@pytest.mark.parametrize("seed", range(8))
def test_committed_work_is_not_lost_or_repeated_and_all_partitions_are_assigned(seed: int) -> None:
    async def scene(group: Group) -> None:
        source = group.world.random("people")
        work = Work()
        group.overlaps = True
        numbers = iter(range(1_000))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + DURATION_S
        while loop.time() < end_s:
            while len(group.members) < MEMBERS:
                await come(group, source, work, next(numbers))
            await asyncio.sleep(source.uniform(0, 15))
            if source.random() < 0.15:
                group.node.kill()
                await asyncio.sleep(source.uniform(0, 8))
                assert await group.node.start()
            await go(group, source, work)
        while len(group.members) < MEMBERS:
            await come(group, source, work, next(numbers))
        assert all(member.error is None for member in group.members)
        await group.until_shared(*group.members)
        assert work.commits > 50

    play(
        scene,
        seed=seed,
        odds=ODDS,
        group_consumer_session_timeout_ms="10000",
        group_consumer_min_session_timeout_ms="10000",
        group_consumer_heartbeat_interval_ms="2000",
        group_consumer_min_heartbeat_interval_ms="2000",
        group_consumer_migration_policy="bidirectional",
    )
