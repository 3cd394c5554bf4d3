"""Arguments of transaction calls: accepted in common forms, or rejected before they do harm."""

from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import BadSetting, FatalTransactionError
from cordwood.client.offset_types import OffsetAndMetadata
from tests.client.transacting import TOPIC, Stage, play, transact, write

P0 = TopicPartition(TOPIC, 0)


@pytest.mark.parametrize("offsets", [{P0: 5}, {(TOPIC, 0): 5}, {P0: OffsetAndMetadata(5)}])
def test_offsets_are_numbers_or_with_metadata_and_partitions_may_be_plain_tuples(offsets: Any) -> None:
    async def scene(stage: Stage) -> None:
        producer = await stage.producer("id")
        async with producer.transaction():
            await producer.send_offsets_to_transaction(offsets, GroupMetadata("g"))
        assert await stage.committed_offset("g", P0) == 5

    play(scene)


@pytest.mark.parametrize(
    ("offsets", "group", "told"),
    [
        ({P0: "5"}, GroupMetadata("g"), "t-0: '5' is not an offset"),
        ({P0: -1}, GroupMetadata("g"), "t-0: -1 is not an offset"),
        ({P0: None}, GroupMetadata("g"), "t-0: None is not an offset"),
        ({P0: (5, 7)}, GroupMetadata("g"), "t-0: the offset's metadata is 7"),
        ({TOPIC: 5}, GroupMetadata("g"), "expected a TopicPartition"),
        ({(TOPIC, -1): 5}, GroupMetadata("g"), "expected a TopicPartition"),
        ([(P0, 5)], GroupMetadata("g"), "expected a dict"),
        ({P0: 5}, "g", r"of type str; expected consumer\.group_metadata\(\)"),
        ({P0: 5}, None, r"expected consumer\.group_metadata\(\)"),
        ({P0: 5}, GroupMetadata(None), r"expected consumer\.group_metadata\(\)"),  # type: ignore[arg-type]
    ],
)
def test_unencodable_offsets_are_refused_and_the_producer_continues(offsets: Any, group: Any, told: str) -> None:
    async def scene(stage: Stage) -> None:
        producer = await stage.producer("id")
        async with producer.transaction():
            await write(producer, b"x", [0])
            with pytest.raises(BadSetting, match=told):
                await producer.send_offsets_to_transaction(offsets, group)
        await transact(producer, b"y")
        assert (await stage.committed())[0] == [b"x", b"y"]

    play(scene)


def test_a_timeout_that_brokers_do_not_allow_is_named_with_theirs() -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(FatalTransactionError, match=r"transaction_timeout_ms .* transaction\.max") as told:
            await stage.producer("id", transaction_timeout_ms=86_400_000)
        assert told.value.what_to_do is not None
        assert "lower transaction_timeout_ms" in told.value.what_to_do

    play(scene)


def test_an_invalid_prepared_state_does_not_abort_the_prepared_transaction() -> None:
    async def scene(stage: Stage) -> None:
        producer = await stage.producer("id", transaction_two_phase_commit_enable=True)
        await producer.begin_transaction()
        await write(producer, b"x", [0])
        prepared = await producer.prepare_transaction()
        with pytest.raises(BadSetting, match=r"expected the return value of prepare_transaction\(\)"):
            await producer.complete_transaction(str(prepared))  # type: ignore[arg-type]
        await producer.complete_transaction(prepared)
        assert (await stage.committed())[0] == [b"x"]

    play(scene)
