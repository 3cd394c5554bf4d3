"""InitProducerId without transactions, DescribeProducers, and what idempotent producers are answered."""

from __future__ import annotations

import time

from cordwood.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import produce

_VERSION = 9


async def producer_ids(ask: Asking) -> None:
    for version in range(6):
        given = await ask.quietly(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), version)
        assert not given.error_code
        assert given.producer_epoch == 0
        assert given.producer_id >= 0
    for version in range(3, 6):
        for producer_id, epoch in ((5, 3), (5, -1), (-1, 3), (-2, -2), (2**40, 32767)):
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
            )
            await ask(f"id {producer_id}, epoch {epoch}", request, version)
    for timeout_ms in (0, -1, 2**31 - 1):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms)
        assert not (await ask.quietly(request, 4)).error_code
        await ask(
            f"transactional, timeout {timeout_ms}",
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=timeout_ms),
            4,
        )
    await ask("an empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), 4)


async def idempotence(ask: Asking) -> None:
    await ask.create("i", 3)
    given = await ask.quietly(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    mine = given.producer_id
    # Producers of long ago are forgotten.
    now_ms = time.time_ns() // 1_000_000
    ask.name(mine, "mine")

    async def write(words: str, sequence: int, *, epoch: int = 0, count: int = 1, partition: int = 0) -> None:
        values = [f"{sequence}+{index}" for index in range(count)]
        times = [now_ms] * count
        records = batch(*values, timestamps=times, producer_id=mine, epoch=epoch, sequence=sequence)
        await ask(words, produce("i", records, partition=partition), _VERSION)

    await write("the first", 0)
    await write("the first again", 0)
    await write("the next", 1, count=2)
    await write("a gap", 5)
    await write("the next again", 1, count=2)
    await write("half of it again", 1)
    await write("the rest of it again", 2)
    for sequence in range(3, 8):
        await write("and on", sequence)
    await write("the oldest of five again", 3)
    await write("older than five", 1, count=2)
    await write("older than five", 0)
    await write("a later epoch, not from 0", 3, epoch=1)
    await write("a later epoch", 0, epoch=1)
    await write("an epoch that is over", 8, epoch=0)
    await write("a later epoch goes on", 1, epoch=1)
    await write("a partition that does not know it, not from 0", 7, partition=1)
    await write("and goes on", 8, partition=1)
    await write("and does not", 8, partition=1, count=2)
    await write("round the end", 2**31 - 2, partition=2, count=2)
    await write("from the beginning", 0, partition=2)
    await write("over the end", 2**31 - 1, partition=2, epoch=3)
    await write("no epoch", 1, epoch=-1, partition=2)
    await write("no sequence", -1, partition=0, epoch=1)
    await ask("two batches", produce("i", batch("a", producer_id=mine, epoch=1, sequence=2) + batch("b")), _VERSION)
    described = await ask.quietly(_describe("i", 0), 0)
    assert described.topics[0].partitions[0].active_producers
    await ask("described", _describe("i", 0, 1, 2, 3), 0)
    await ask("described: no topic", _describe("none", 0), 0)
    await ask("described: no name", _describe("a b", 0), 0)
    await ask("described: nothing", DescribeProducersRequest(), 0)


def _describe(topic: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(partitions))])
