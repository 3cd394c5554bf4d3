"""The fast path of `send`: batches, deliveries and errors are the same on both paths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.client.errors import ClientError
from cordwood.client.producer import intake
from cordwood.client.producer.deliveries import Delivery, RecordMetadata
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from tests.client.model_partition import ModelPartition, answer, records_of
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers

PARTITIONS = 3
# Records that no batch has room for go alone, and those that no request has room for are refused.
BATCH_BYTES = 300
REQUEST_BYTES = 1500


class Sent(NamedTuple):
    """The arguments of `send`, and how long it takes until the next call."""

    value: Any
    key: Any
    partition: Any
    timestamp_ms: Any
    headers: Any
    pause_s: float


class Stage(NamedTuple):
    sent: list[Sent]
    linger_ms: int
    has_serializer: bool
    # The topic grows before this record.
    grows_at: int


class Outcome(NamedTuple):
    # For each broker: the partitions and batches of each request.
    requests: list[list[list[tuple[int, bytes]]]]
    # For each call: the error's text.
    results: list[RecordMetadata | str]


VALUES = (
    st.none()
    | st.builds(bytes, st.integers(0, 60))
    | st.builds(bytes, st.integers(200, 400))
    | st.sampled_from([b"", bytes(2000), bytearray(5), "text", 5])
)
PAUSES_S = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.001, 0.2, 400.0])


def records(partitions: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Sent]:
    return st.builds(
        Sent,
        VALUES,
        keys,
        partitions,
        st.sampled_from([None, None, None, None, 5, 0, -1, 1 << 63, "now"]),
        st.sampled_from([(), (), (), (), [("a", b"x")], {"a": None}, [("a", "x")]]),
        PAUSES_S,
    )


def stages(sent: st.SearchStrategy[Sent]) -> st.SearchStrategy[Stage]:
    return st.builds(
        Stage,
        st.lists(sent, max_size=40),
        st.sampled_from([0, 0, 20]),
        st.sampled_from([False, False, True]),
        st.integers(0, 60),
    )


KEYS = st.none() | st.sampled_from([b"a", b"b", b"", b"key", "text"])
PARTITION = st.sampled_from([0, 0, 1, 2, True, 3, 9, -1, "0"])


@settings(max_examples=150, deadline=None)
@given(stages(records(PARTITION, KEYS) | records(st.none(), st.sampled_from([b"a", b"b", b"", b"key"]))))
def test_a_record_with_a_partition_or_a_key_goes_the_same_way_on_both_paths(stage: Stage) -> None:
    assert outcome(stage) == outcome_without_shortcut(stage)


@settings(max_examples=100, deadline=None)
@given(stages(records(st.none() | PARTITION, KEYS)))
def test_a_record_without_either_is_sent_once_and_in_order_on_both_paths(stage: Stage) -> None:
    """The fast path fills a batch to its last byte, where the partitioner estimates: the rest may go elsewhere."""
    fast, general = outcome(stage), outcome_without_shortcut(stage)
    assert [without_place(result) for result in fast.results] == [without_place(result) for result in general.results]
    for results in (fast.results, general.results):
        places = [(result.partition, result.offset) for result in results if isinstance(result, RecordMetadata)]
        for partition in range(PARTITIONS + 1):
            offsets = [offset for chosen, offset in places if chosen == partition]
            assert offsets == list(range(len(offsets)))


def without_place(result: RecordMetadata | str) -> object:
    return result if isinstance(result, str) else result._replace(partition=-1, offset=-1)


def outcome_without_shortcut(stage: Stage) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "Shortcut", GeneralOnly)
        return outcome(stage)


class GeneralOnly:
    """Stands in for a `Shortcut` that never has an open batch."""

    def __init__(self, client: object, lock: object, now_ms: object, long_way: Callable[..., Any], **_: bool) -> None:
        self.send = long_way

    def append(self, *_: object) -> None:
        return None

    def opened(self, *_: object) -> None:
        pass


def outcome(stage: Stage) -> Outcome:
    world = World(1, odds=NetworkOdds(slow=0.0), limit_s=100_000)
    told: list[Outcome] = []

    async def main() -> None:
        async with scripted_brokers(2, world) as brokers:
            for broker in brokers:
                broker.leaders = [1, 2, 1]
                broker.answers[InitProducerIdRequest.api_key] = lambda request, version: InitProducerIdResponse(
                    producer_id=7
                )
                broker.answers[ProduceRequest.api_key] = takes([ModelPartition() for _ in range(PARTITIONS + 1)])
            producer = new_producer(brokers, world, stage)
            await producer.start()
            results = await send_all(producer, brokers, stage)
            await producer.close()
            told.append(Outcome([requests_of(broker) for broker in brokers], results))

    world.run(main())
    return told[0]


def takes(partitions: list[ModelPartition]) -> Callable[[ProduceRequest, int], ProduceResponse]:
    def produce(request: ProduceRequest, version: int) -> ProduceResponse:
        answers = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                code, offset = partitions[data.index].append(records_of(data))
                answers[topic.name, data.index] = PartitionProduceResponse(
                    index=data.index, error_code=code, base_offset=offset
                )
        return answer(request, answers)

    return produce


def new_producer(brokers: list[ScriptedBroker], world: World, stage: Stage) -> Producer:
    return Producer(
        ProducerSettings(
            batch_size=BATCH_BYTES,
            linger_ms=stage.linger_ms,
            max_request_size=REQUEST_BYTES,
            buffer_memory=30_000,
            max_block_ms=1000,
            value_serializer=(lambda value: value if value is None else b"%d" % len(value))
            if stage.has_serializer
            else None,
        ),
        [broker.address for broker in brokers],
        network=world.network.host("client"),
        clock=world.clock,
        random=SeededRandom(1),
    )


async def send_all(producer: Producer, brokers: list[ScriptedBroker], stage: Stage) -> list[RecordMetadata | str]:
    deliveries: list[Delivery | ClientError] = []
    for number, (value, key, partition, timestamp_ms, headers, pause_s) in enumerate(stage.sent):
        if number == stage.grows_at:
            for broker in brokers:
                broker.leaders = [1, 2, 1, 2]
        try:
            deliveries.append(
                await producer.send("t", value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
            )
        except ClientError as error:
            deliveries.append(error)
        await asyncio.sleep(pause_s)
    await producer.flush()
    return [await told(each) for each in deliveries]


async def told(outcome: Delivery | ClientError) -> RecordMetadata | str:
    if isinstance(outcome, ClientError):
        return repr(outcome)
    try:
        return await outcome
    except ClientError as error:
        return repr(error)


def requests_of(broker: ScriptedBroker) -> list[list[tuple[int, bytes]]]:
    return [
        [(data.index, bytes(records_of(data))) for topic in request.topic_data for data in topic.partition_data]
        for request in broker.seen_of(ProduceRequest)
    ]
