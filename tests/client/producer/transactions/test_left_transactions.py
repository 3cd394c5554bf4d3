"""Transactions that their producer leaves to another, who ends them from elsewhere; on a real node, in virtual time."""

import pytest

from cordwood.client.admin.transaction_ends import end_transactions
from cordwood.client.errors import TransactionAbortable
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.wire.errors import ErrorCode
from tests.client.transacting import BOTH, Stage, each, on_stage, write


async def leave(producer: Producer, value: bytes) -> LeftTransaction:
    await producer.begin_transaction()
    await write(producer, value)
    left = await producer.leave_transaction()
    assert left is not None
    return left


async def end(stage: Stage, *left: LeftTransaction, commit: bool = True) -> list[ErrorCode | None]:
    async with await stage.client() as client:
        outcomes = await end_transactions(client, left, commit=commit)
    return [None if (error := outcomes[each]) is None else error.code for each in left]


@BOTH
async def test_a_left_transaction_is_committed_by_another_process(stage: Stage) -> None:
    producer = await stage.producer("id")
    left = await leave(producer, b"x")
    await producer.close()
    assert await stage.committed() == each()
    assert await end(stage, left) == [None]
    assert await stage.committed() == each(b"x")


@BOTH
async def test_ending_it_again_is_not_an_error(stage: Stage) -> None:
    producer = await stage.producer("id")
    left = await leave(producer, b"x")
    assert [await end(stage, left) for _ in range(3)] == [[None]] * 3
    assert await stage.committed() == each(b"x")


@BOTH
async def test_an_aborted_transaction_cannot_be_committed(stage: Stage) -> None:
    producer = await stage.producer("id")
    left = await leave(producer, b"x")
    assert await end(stage, left, commit=False) == [None]
    assert await end(stage, left) == [ErrorCode.INVALID_TXN_STATE]
    assert await stage.committed() == each()


@BOTH
async def test_a_committed_transaction_cannot_be_aborted(stage: Stage) -> None:
    producer = await stage.producer("id")
    left = await leave(producer, b"x")
    assert await end(stage, left) == [None]
    assert await end(stage, left, commit=False) == [ErrorCode.INVALID_TXN_STATE]


@BOTH
async def test_taking_over_an_id_aborts_a_left_transaction(stage: Stage) -> None:
    left = await leave(await stage.producer("id"), b"x")
    await stage.producer("id")
    assert await end(stage, left, commit=False) == [None]
    assert await end(stage, left) != [None]


@BOTH
async def test_a_producer_can_switch_transactional_ids(stage: Stage) -> None:
    producer = await stage.producer("id-0")
    left = []
    for number in range(3):
        left.append(await leave(producer, b"%d" % number))
        producer.take_transactional_id(f"id-{number + 1}")
        await producer.init_transactions()
    assert await end(stage, left[0], left[2]) == [None, None]
    assert await end(stage, left[1], commit=False) == [None]
    assert await stage.committed() == each(b"0", b"2")


@BOTH
async def test_without_records_there_is_nothing_to_end(stage: Stage) -> None:
    producer = await stage.producer("id")
    await producer.begin_transaction()
    assert await producer.leave_transaction() is None


@on_stage(2)
async def test_a_failed_transaction_cannot_be_left(stage: Stage) -> None:
    producer = await stage.producer("id", transaction_timeout_ms=1_000)
    await producer.begin_transaction()
    await write(producer, b"x")
    await stage.producer("id")
    delivery = await producer.send("t", b"late", partition=0)
    with pytest.raises(TransactionAbortable):
        await producer.leave_transaction()
    assert delivery.done()
