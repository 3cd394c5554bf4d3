"""Consume, transform, produce as members of a group (KIP-447): each has its own transactional id. The producer of a
member whose partitions move to another is not fenced. Its offsets are rejected, since it is not in the generation any
more; and the other member waits for its earlier commits.
"""

from cordwood.sim.clients.client import Run
from cordwood.sim.groups.classic import ClassicMember
from cordwood.sim.groups.consumer import ConsumerMember
from cordwood.sim.groups.member import Fenced, GroupPlan, Member
from cordwood.sim.groups.offsets import Position
from cordwood.sim.partition import Partition

from .producer import Died, Generation, Lost, TransactionalProducer
from .transformation import read_committed, transformed


class _Transform(Member):
    def __init__(
        self,
        run: Run,
        name: str,
        plan: GroupPlan,
        generation: Generation,
        timeout_ms: int,
        targets: list[Partition],
    ) -> None:
        super().__init__(run, name, plan, instance_id=None)
        self._producer = TransactionalProducer(run, f"{name}-producer", name, generation, timeout_ms)
        self._targets = targets

    async def consume(self) -> None:
        if self.hands.unknown:
            await self.look_up_positions(require_stable=True)
        if not self.hands.positions:
            return
        partition = self.source.choice(list(self.hands.positions))
        offset = self.hands.positions[partition]
        read = await read_committed(self, partition, offset)
        if read.next_offset == offset:
            return
        position = Position(read.next_offset, self.hands.position(partition).tenure)
        try:
            if self._producer.producer_id < 0:
                await self._producer.initialize()
            if await transformed(
                self._producer,
                self.plan.group_id,
                read,
                self._targets,
                position,
                self.identity,
                # Time for others to have its partitions.
                hesitation_s=self.plan.session_timeout_s * 3,
            ):
                self.hands.positions[partition] = read.next_offset
        except Lost:
            # Offsets are fetched again once the open transaction has ended.
            self._producer.producer_id = -1
            await self._producer.initialize()
            self.hands.positions.pop(partition, None)
        except Died as died:
            self._producer.producer_id = -1
            await self.die()
            raise Fenced("it was another's life") from died

    async def commit_before_letting_go(self) -> None:
        """It commits within transactions only."""


class ClassicTransform(_Transform, ClassicMember):
    pass


class ConsumerTransform(_Transform, ConsumerMember):
    pass
