"""Proposes changes of in-sync sets, as the leader of partitions, to the controller (KIP-497)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cordwood.net.peers.backoff import Backoff
from cordwood.replica.leader import IsrAnswered, ProposeIsr
from cordwood.replica.partition import Partition
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.primitives import Uuid

from .channel import ControllerChannel

_log = logging.getLogger(__name__)

# Back-off after a failed request or a temporary refusal.
_RETRY_MS = 50
_RETRY_MAX_MS = 1_000


class _Asked(NamedTuple):
    proposal: ProposeIsr
    # At the time of the proposal. The metadata may contain the change before the controller's answer arrives.
    isr_before: tuple[int, ...]


class IsrChanges:
    """One AlterPartition is in flight at a time; later proposals go with the next one. `broker_epoch` is that of this
    start of the broker.

    Undecided proposals are retried with exponential back-off. `wake` ends the back-off, since another controller may be
    active. So does a proposal for another partition, which must not wait for the problems of one.
    """

    def __init__(
        self, broker_id: int, broker_epoch: Callable[[], int], controller: ControllerChannel, random: Random
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        # Since the start: number of replicas that left and joined in-sync sets.
        self.shrinks = 0
        self.expands = 0
        self._proposals: dict[Partition, _Asked] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._backoff = Backoff(_RETRY_MS, _RETRY_MAX_MS, random)
        self._failures = 0
        # Cleared when a back-off begins, set to end it.
        self._woken = asyncio.Event()
        # The error of the last whole request: each is logged once.
        self._last_error = ErrorCode.NONE

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        self._proposals[partition] = _Asked(proposal, () if partition.leader is None else partition.leader.isr)
        self._woken.set()
        if self._task is None and not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._ask_all())

    def wake(self) -> None:
        """Retries now, after failures."""
        self._woken.set()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask_all(self) -> None:
        try:
            while self._proposals:
                asked, self._proposals = self._proposals, {}
                response = await self._controller.ask(self._request(asked))
                error = ErrorCode(response.error_code)
                if error is not self._last_error and error is not ErrorCode.NONE:
                    _log.warning(
                        "The controller has not decided %d changes of in-sync replicas (%s), retrying within %g s",
                        len(asked), error.name, _RETRY_MAX_MS / 1000,
                    )  # fmt: skip
                self._last_error = error
                if error is not ErrorCode.NONE:
                    # A later proposal replaces it.
                    self._proposals = {**asked, **self._proposals}
                    await self._pause(asked)
                elif not self._take(asked, response):
                    await self._pause(asked)
                else:
                    self._failures = 0
        finally:
            self._task = None

    async def _pause(self, asked: Mapping[Partition, _Asked]) -> None:
        self._failures += 1
        if not self._proposals.keys() <= asked.keys():
            # Another partition's proposal came while the controller was asked.
            return
        self._woken.clear()
        try:
            async with asyncio.timeout(self._backoff.pause_s(self._failures)):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _request(self, proposals: dict[Partition, _Asked]) -> AlterPartitionRequest:
        topics: dict[Uuid, list[RequestPartitionData]] = {}
        epoch = self._broker_epoch()
        for partition, (proposal, _) in proposals.items():
            topics.setdefault(partition.topic_id, []).append(
                RequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=member.broker_id,
                            broker_epoch=epoch if member.broker_id == self._broker_id else member.broker_epoch,
                        )
                        for member in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=epoch,
            topics=[
                RequestTopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
            ],
        )

    def _take(self, asked: dict[Partition, _Asked], response: AlterPartitionResponse) -> bool:
        """Returns False if anything is proposed again at once."""
        answers = {
            (topic.topic_id, answer.partition_index): answer for topic in response.topics for answer in topic.partitions
        }
        for partition, (proposal, before) in asked.items():
            answer = answers.get((partition.topic_id, partition.index))
            # Proposals missing in the response are retried.
            error = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode(answer.error_code)
            partition.isr_answered(IsrAnswered(proposal, error, -1 if answer is None else answer.partition_epoch))
            if answer is not None and error is ErrorCode.NONE:
                self._count(partition, before, tuple(answer.isr))
            else:
                _log.info("%s: the in-sync replicas stay %s: %s", partition, list(before), error.name)
        again = {partition: proposal for partition, (proposal, _) in self._proposals.items()}
        return not any(again.get(partition) == proposal for partition, (proposal, _) in asked.items())

    def _count(self, partition: Partition, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if len(after) < len(before):
            self.shrinks += 1
        elif len(after) > len(before):
            self.expands += 1
        _log.info("%s: in-sync replicas changed from %s to %s", partition, list(before), list(after))
