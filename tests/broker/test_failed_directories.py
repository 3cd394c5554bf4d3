"""A log directory of one of three brokers fails: it goes offline alone, and others lead what was in it at once."""

from __future__ import annotations

import asyncio
import errno

import pytest

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

META, ONE, TWO = "/meta", "/one", "/two"
# In virtual time; a controller must be notified and decide, and the others must get the decision.
AT_ONCE_S = 0.2
PARTITIONS = 6


def in_directory(cluster: ThreeBrokers, broker_id: int, root: str) -> list[int]:
    """The partitions of "t" that lie there."""
    directories = cluster.broker(broker_id).replicas.directories.directories
    directory = next(each for each in directories if each.disk.root == root)
    return sorted(index for name, index in directory.logs if name == "t")


async def send(cluster: ThreeBrokers, broker_id: int, index: int) -> ErrorCode:
    response = await cluster.ask(broker_id, produce("t", batch("x"), partition=index, acks=-1), 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def fill(cluster: ThreeBrokers) -> list[int]:
    """Creates partitions that broker 1 leads, and a record in each; returns those in its second directory."""
    await cluster.create("t", *[1] * PARTITIONS)
    for index in range(PARTITIONS):
        assert await send(cluster, 1, index) == ErrorCode.NONE
        await cluster.until_replicated("t", index)
    lost = in_directory(cluster, 1, TWO)
    assert 0 < len(lost) < PARTITIONS
    return lost


def fail(cluster: ThreeBrokers, error: int) -> None:
    cluster.machines[1].disks[TWO].fail_next("append to", error)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["failed", "full"])
def test_leaders_move_at_once_from_a_directory_that_is(error: int) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        lost = await fill(cluster)
        fail(cluster, error)
        before = cluster.world.loop.time()
        assert await send(cluster, 1, lost[0]) == ErrorCode.KAFKA_STORAGE_ERROR
        for index in lost:
            await cluster.until_led("t", index, other_than=1)
        assert cluster.world.loop.time() - before <= AT_ONCE_S
        for index in range(PARTITIONS):
            assert (cluster.leader("t", index) == 1) == (index not in lost)
            assert await send(cluster, cluster.leader("t", index), index) == ErrorCode.NONE

    with_three_brokers(test, log_dirs=f"{ONE},{TWO}", metadata_log_dir=META)


def test_a_failed_directory_is_reported_as_soon_as_a_controller_is_known() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        lost = await fill(cluster)
        [controller] = cluster.controllers.values()
        controller.kill()
        fail(cluster, errno.EIO)
        assert await send(cluster, 1, lost[0]) == ErrorCode.KAFKA_STORAGE_ERROR
        # Longer than a request waits for a controller: the report was given up and is due again after a pause.
        await asyncio.sleep(40)
        # It waits for a controller, and is answered by the first that the broker finds.
        asked = asyncio.create_task(cluster.broker(1).controller.ask(AllocateProducerIdsRequest(broker_id=1)))
        await asyncio.sleep(1)
        assert await controller.start()
        await asked
        before = cluster.world.loop.time()
        for index in lost:
            await cluster.until_led("t", index, other_than=1)
        assert cluster.world.loop.time() - before <= AT_ONCE_S

    with_three_brokers(test, log_dirs=f"{ONE},{TWO}", metadata_log_dir=META)
