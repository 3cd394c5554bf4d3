"""Members of one group on a real node, all on virtual time; the applications do nothing but poll.

async def scene(group: Group) -> None:
    first = await group.alone("consumer")
    second = await group.member("second", "consumer")
    await group.until_shared(first, second)

play(scene)
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from cordwood.client.admin.topics import NewTopic, create_topics
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.classic import ClassicMember
from cordwood.client.consumer.membership.consumer_protocol import ConsumerProtocolMember
from cordwood.client.consumer.membership.driver import MembershipDriver
from cordwood.client.consumer.membership.events import Assign, Lose, Machine, Revoke
from cordwood.client.consumer.offsets.commits import Commits
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster, ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.settings import Settings
from cordwood.runtime.network import Address, Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.sim.machine import PORT
from cordwood.sim.machine import Machine as Computer
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World

PARTITIONS = 4
ALL = frozenset(TopicPartition("t", index) for index in range(PARTITIONS))
_NODE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
_POLL_S = 1.0
_LOOK_S = 0.1


class Group:
    def __init__(self, world: World, node: Computer, client: Client) -> None:
        self.world = world
        self.node = node
        self.client = client
        self.members: list[Member] = []
        self.overlaps = False
        """True if members may be cut off for so long that others own what they do not know to have lost."""

    async def member(
        self, name: str, protocol: str, *, kind: "type[Member] | None" = None, **settings: Any
    ) -> "Member":
        options = ConsumerSettings(group_id="g", group_protocol=protocol, **settings)
        member = (kind or Member)(self, name, options)
        await member.start()
        self.members.append(member)
        return member

    async def alone(self, protocol: str, **settings: Any) -> "Member":
        """One that has all."""
        first = await self.member("first", protocol, **settings)
        await self.until_shared(first)
        return first

    async def pair(self, protocol: str, **settings: Any) -> "tuple[Member, Member]":
        """Two that share all; the settings are those of the first."""
        first = await self.member("first", protocol, **settings)
        second = await self.member("second", protocol)
        await self.until_shared(first, second)
        return first, second

    async def until_shared(self, *members: "Member", partitions: frozenset[TopicPartition] = ALL) -> None:
        """All of it is read, each by one of these, and none of them has nothing."""

        def is_shared() -> bool:
            assigned = [member.assignment for member in members]
            return (
                frozenset().union(*assigned) == partitions
                and sum(map(len, assigned)) == len(partitions)
                and all(assigned)
            )

        await self.until(is_shared)

    async def until(self, condition: Callable[[], bool], limit_s: float = 300.0) -> None:
        end_s = asyncio.get_running_loop().time() + limit_s
        while not condition():
            states = {member.name: (sorted(member.assignment), member.log[-3:]) for member in self.members}
            assert asyncio.get_running_loop().time() < end_s, states
            await asyncio.sleep(_LOOK_S)

    def check_alone(self, member: "Member") -> None:
        """Nobody whose application is alive has what another has."""
        for other in self.members:
            if other is not member and other.is_alive and not self.overlaps:
                assert not (member.assignment & other.assignment), (member.name, other.name)


class Member:
    """`log` has what its application went through."""

    def __init__(self, group: Group, name: str, settings: ConsumerSettings) -> None:
        self.name = name
        self.group = group
        self.settings = settings
        self.log: list[Revoke | Lose | Assign] = []
        self.error: ClientError | None = None
        self.position: dict[TopicPartition, OffsetAndMetadata] = {}
        self.is_alive = False
        self.jobs: list[asyncio.Future[None]] = []
        """The application's other work; ends when that stops."""
        self._network = group.world.network.host(name)
        self._random = SeededRandom(group.world.random(name).getrandbits(60))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return self.driver.assignment

    async def start(self, *topics: str, pattern: str | None = None) -> None:
        address = Address(self.group.node.name, PORT)
        self.client = await _connected(address, self.settings, self._network, self._random)
        machine: Machine = (
            ClassicMember(self.settings, self._random)
            if self.settings.group_protocol == "classic"
            else ConsumerProtocolMember(self.settings, self._random)
        )
        self.driver = MembershipDriver(self.client, machine, "g", network=self._network, random=self._random)
        self.commits = Commits(self.client, self.settings, self.driver, consumed=lambda: self.position)
        self.commits.is_member = True
        await self.subscribe(*(topics or ("t",)))
        self.resume()

    async def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        await self.client.topics(topics)
        self.driver.topics_changed()
        self.driver.subscribe(frozenset(topics), pattern)

    def subscribe_to_pattern(self, pattern: str) -> None:
        self.driver.subscribe(frozenset(), pattern)

    # ---- what may become of it

    def resume(self) -> None:
        self.is_alive = True
        self.jobs.append(asyncio.ensure_future(self._poll_forever()))

    async def stall(self) -> None:
        """Its application hangs; heartbeats continue."""
        self.is_alive = False
        for job in self.jobs:
            job.cancel()
        for ended in await asyncio.gather(*self.jobs, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        self.jobs.clear()

    async def kill(self) -> None:
        await self.stall()
        await self.driver.close()
        await self.client.close()

    async def stop(self) -> None:
        """In order."""
        await self.stall()
        self.driver.leave("the test says so")
        while not self.driver.has_left:
            await self._do_what_waits()
            await asyncio.sleep(0.01)
        await self.commits.close(5)
        await self.driver.close()
        await self.client.close()

    # ---- the application

    async def _poll_forever(self) -> None:
        while True:
            with self.driver.polling():
                await self._do_what_waits()
                if self.driver.error is not None:
                    self.error = self.driver.error
                    return
                self.driver.changed.clear()
                try:
                    async with asyncio.timeout(_POLL_S):
                        await self.driver.changed.wait()
                except TimeoutError:
                    pass

    async def assigned(self, step: Assign) -> None:
        committed = await self.commits.committed(step.added)
        self.position |= {part: at or OffsetAndMetadata(0) for part, at in committed.items()}

    async def _do_what_waits(self) -> None:
        while (step := self.driver.waiting) is not None:
            if isinstance(step, Revoke):
                await self.commits.before_release(5)
            self.log.append(step)
            self.driver.settled()
            if isinstance(step, Assign):
                self.group.check_alone(self)
                await self.assigned(step)
            else:
                for partition in step.partitions:
                    self.position.pop(partition, None)


def play(
    scene: Callable[[Group], Awaitable[None]], *, seed: int = 1, odds: NetworkOdds | None = None, **settings: str
) -> None:
    world = World(seed, odds=odds, limit_s=7_200, pauses=True)

    async def main() -> None:
        node = Computer(world, "node", {**_NODE, **{key.replace("_", "."): value for key, value in settings.items()}})
        assert await node.start()
        async with await _connected(
            Address(node.name, PORT), Settings(), world.network.host("admin"), SeededRandom(seed)
        ) as client:
            await create_topics(client, [NewTopic("t", PARTITIONS)])
            await scene(Group(world, node, client))

    world.run(main())


async def _connected(address: Address, settings: Settings, network: Network, random: Random) -> Client:
    while True:
        try:
            return await Client.connect([address], settings, network=network, random=random)
        except CannotReachCluster:
            # At the start a client does not insist.
            await asyncio.sleep(_LOOK_S)
