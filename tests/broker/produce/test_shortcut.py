"""The fast path of a Produce gives the same answers and logs as the general path."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.broker.produce.shortcut import ProduceShortcut
from cordwood.console.request_metrics import RequestMetrics
from cordwood.log.log import Log
from cordwood.net.api import Call
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.gate import Gate
from cordwood.net.peers.channel import Channel
from cordwood.net.serving import Reply
from cordwood.replica.partition import Partition
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import decode_request, decode_response, encode_request
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import ProduceRequest, ProduceResponse
from data_answers.batches import batch
from data_answers.requests import produce, produce_all
from tests.broker.gated import ALICE, BOB, Guard, Meter, connect_as, serve
from tests.broker.measured import figures
from tests.broker.simulated import SimulatedNode, simulate, simulate_measured

Sent = tuple[ProduceRequest | AddPartitionsToTxnRequest | EndTxnRequest, int, str | None]
TRANSACTIONAL_ID = "tx"
FLUSHED = {"flush.messages": "1"}


def numbered(sequence: int) -> bytearray:
    return batch("a", "b", producer_id=7, epoch=0, sequence=sequence)


def of_transaction(sequence: int) -> bytearray:
    """The producer of the transactional id."""
    return batch("t", producer_id=0, epoch=0, sequence=sequence, transactional=True)


def damaged() -> bytearray:
    data = batch("damaged")
    data[-1] ^= 1
    return data


BATCHES: dict[str, Callable[[], bytearray | None]] = {
    "plain": lambda: batch("a", "b", "c"),
    "large": lambda: batch("x" * 70_000),
    "lz4": lambda: batch("a" * 1000, codec=Codec.LZ4),
    "first of a producer": lambda: numbered(0),
    "second of a producer": lambda: numbered(2),
    "out of order": lambda: numbered(50),
    "of a transaction": lambda: batch("t", producer_id=9, epoch=0, sequence=0, transactional=True),
    "damaged": damaged,
    "two batches": lambda: batch("a") + batch("b"),
    "too short": lambda: bytearray(b"short"),
    "none": lambda: None,
}
PLACES = [("t", 0), ("t", 1), ("a-longer-name", 0), ("flushed", 0), ("t", 9), ("unknown", 0)]


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    topic, index = draw(st.sampled_from(PLACES))
    acks = draw(st.sampled_from([1, -1, 7]))
    records = BATCHES[draw(st.sampled_from(sorted(BATCHES)))]()
    request = produce(topic, records, partition=index, acks=acks, timeout_ms=draw(st.sampled_from([1000, 0])))
    if draw(st.integers(0, 9)) == 0:
        request = produce_all({("t", 0): batch("a"), ("t", 1): batch("b")}, acks=acks)
    return request, draw(st.sampled_from([8, 9, 10, 12])), draw(st.sampled_from(["test", None, "", "c" * 300]))


def adding() -> AddPartitionsToTxnRequest:
    """Adds two of the three partitions, so that one is not part of the transaction."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name="t", partitions=[0]),
            AddPartitionsToTxnTopic(name="flushed", partitions=[0]),
        ],
    )


def ending() -> EndTxnRequest:
    return EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=0, producer_epoch=0, committed=True)


BEGIN: Sent = (adding(), 3, "test")
END: Sent = (ending(), 3, "test")


@st.composite
def transactional_requests(draw: st.DrawFn) -> Sent:
    topic, index = draw(st.sampled_from([("t", 0), ("t", 1), ("flushed", 0)]))
    records = draw(st.sampled_from([of_transaction(0), of_transaction(1), numbered(0)]))
    transactional_id = draw(st.sampled_from([TRANSACTIONAL_ID, TRANSACTIONAL_ID, "nobody's"]))
    request = produce(topic, bytearray(records), partition=index, acks=-1, transactional_id=transactional_id)
    return request, draw(st.sampled_from([10, 10, 12])), "test"


@settings(max_examples=60, deadline=None)
@given(st.lists(requests(), min_size=2, max_size=20))
def test_answers_and_logs_are_those_of_the_general_path(sent: list[Sent]) -> None:
    # Each again, so that what was learned from it is used.
    sent = [*sent, *sent]
    assert answers_to(sent, short_way=True) == answers_to(sent, short_way=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(transactional_requests() | st.sampled_from([BEGIN, END]), min_size=5, max_size=20))
def test_answers_and_logs_of_transactions_are_those_of_the_general_path(sent: list[Sent]) -> None:
    sent = [*sent, *sent]
    assert answers_to(sent, short_way=True) == answers_to(sent, short_way=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(requests() | st.sampled_from([BEGIN, END]) | transactional_requests(), min_size=2, max_size=20))
def test_metrics_count_both_ways_alike(sent: list[Sent]) -> None:
    sent = [*sent, *sent]
    short, general = (answers_to(sent, short_way=short_way) for short_way in (True, False))
    assert short[2] == general[2]
    assert any("requests_total" in line and "Produce" in line for line in short[2])


def answers_to(sent: list[Sent], *, short_way: bool) -> tuple[list[bytes], list[bytes], list[str]]:
    """The answers as they came, what the logs hold then, and what metrics have counted."""
    answers: list[bytes] = []
    logs: list[bytes] = []
    counted: list[str] = []

    async def test(node: SimulatedNode, requests: RequestMetrics) -> None:
        serve(node, Gate(quotas=Meter(lambda number: number % 3), measures=requests), short_way=short_way)
        await node.create("t", 2)
        await node.create("a-longer-name", 1)
        await node.create("flushed", 1, FLUSHED)
        channel = await node.connect()
        await begin(channel)
        for number, (request, version, client_id) in enumerate(sent):
            frame = encode_request(request, version, number, client_id)
            answers.append(bytes(await channel.exchange([frame], number)))
        logs.extend(content(node.partition(*place).log) for place in PLACES[:4])
        counted.extend(figures(node, requests))

    simulate_measured(test)
    return answers, logs, counted


async def begin(channel: Channel) -> None:
    """Somebody has the transactional id, and a transaction."""
    await channel.request(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1), 3)
    init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    while (response := await channel.request(init, 4)).error_code:
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)
    assert (response.producer_id, response.producer_epoch) == (0, 0)
    await channel.request(adding(), 3)


def content(log: Log | None) -> bytes:
    assert log is not None
    return log.active.file.read(0, log.active.size)


def shortcut_of(node: SimulatedNode) -> ProduceShortcut:
    assert node.node.broker_role is not None
    shortcut = node.node.broker_role.pipeline._shortcuts[ProduceRequest.api_key]
    assert isinstance(shortcut, ProduceShortcut)
    return shortcut


def told_by(reply: Reply) -> bytes:
    assert reply.done
    assert reply._parts is not None
    (encoded,) = reply._parts
    assert isinstance(encoded, bytes)
    return encoded


def test_a_request_like_an_earlier_one_takes_the_fast_path() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        request = produce("t", batch("a"), acks=1)
        frame = encode_request(request, 9, 5, "test")[4:]
        shortcut = shortcut_of(node)
        (connection,) = node.node.server
        assert shortcut.answer(bytearray(frame), connection.info) is None
        await channel.request(request, 9)
        answer = shortcut.answer(bytearray(frame), connection.info)
        assert isinstance(answer, list)
        (encoded,) = answer
        assert isinstance(encoded, bytes)
        correlation_id, response = decode_response(ProduceResponse, 9, encoded[4:])
        assert (correlation_id, response.responses[0].partition_responses[0].base_offset) == (5, 1)

    simulate(test)


def test_a_batch_of_a_known_transaction_takes_the_fast_path() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        await node.create("flushed")
        channel = await node.connect()
        await begin(channel)
        shortcut = shortcut_of(node)

        def frame(sequence: int) -> bytearray:
            request = produce("t", of_transaction(sequence), acks=-1, transactional_id=TRANSACTIONAL_ID)
            return bytearray(encode_request(request, 10, 5, "test")[4:])

        info = next(iter(node.node.server)).info
        assert shortcut.answer(frame(0), info) is None
        header, decoded = decode_request(frame(0))
        lesson = shortcut.lesson(frame(0), decoded, Call(header, info, len(frame(0))))
        assert lesson is not None
        lesson(ProduceResponse(responses=[]))
        for sequence in range(2):
            assert isinstance(shortcut.answer(frame(sequence), info), list)
        await channel.request(ending(), 3)
        assert shortcut.answer(frame(2), info) is None

    simulate(test)


def test_pending_acknowledgements_stay_on_the_fast_path() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        request = produce("t", batch("a"), acks=-1, timeout_ms=5_000)
        await channel.request(request, 9)
        (connection,) = node.node.server
        answer = shortcut_of(node).answer(bytearray(encode_request(request, 9, 5, "test")[4:]), connection.info)
        assert isinstance(answer, Reply)
        await node.broker.replicas.flusher.finish()
        told = decode_response(ProduceResponse, 9, told_by(answer)[4:])[1].responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 1)

    simulate(test)


def test_a_parked_fetch_fails_when_its_disk_fails() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t", 1, FLUSHED)
        channel = await node.connect()
        request = produce("t", batch("a"), acks=-1, timeout_ms=5_000)
        await channel.request(request, 9)
        (connection,) = node.node.server
        answer = shortcut_of(node).answer(bytearray(encode_request(request, 9, 5, "test")[4:]), connection.info)
        assert isinstance(answer, Reply)
        node.partition("t").go_offline()
        told = decode_response(ProduceResponse, 9, told_by(answer)[4:])[1].responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    simulate(test)


class FailedReader:
    """A reader that is woken and finds that the disk does not answer any more."""

    is_follower = False

    def woken(self, partition: Partition) -> None:
        partition.unwatch(self)
        partition.go_offline()

    def high_watermark_moved(self, partition: Partition) -> None:
        raise AssertionError("it is no follower")

    def expire(self) -> None:
        raise AssertionError("it is woken first")


def test_a_produce_fails_when_the_disk_fails_under_it() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        request = produce("t", batch("a"), acks=1)
        await channel.request(request, 9)
        (connection,) = node.node.server
        node.partition("t").watch(FailedReader())
        answer = shortcut_of(node).answer(bytearray(encode_request(request, 9, 5, "test")[4:]), connection.info)
        assert isinstance(answer, list)
        [whole] = answer
        assert isinstance(whole, bytes)
        told = decode_response(ProduceResponse, 9, whole[4:])[1].responses[0].partition_responses[0]
        assert (told.error_code, told.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

    simulate(test)


def test_a_truncated_request_takes_the_general_path() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        request = produce("t", batch("a"), acks=1)
        await channel.request(request, 9)
        frame = encode_request(request, 9, 5, "test")[4:]
        (connection,) = node.node.server
        for length in range(len(frame)):
            assert shortcut_of(node).answer(bytearray(frame[:length]), connection.info) is None

    simulate(test)


def test_an_invalid_length_takes_the_general_path() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        records = batch("a" * 300)
        request = produce("t", records, acks=1)
        frame = encode_request(request, 9, 5, "test")[4:]
        await channel.request(request, 9)
        # The length, two bytes, stands right before the records.
        at = frame.index(records) - 2
        (connection,) = node.node.server
        lying = bytearray(frame[:at] + b"\xff" * 10 + frame[at + 2 :])
        assert shortcut_of(node).answer(lying, connection.info) is None

    simulate(test)


@st.composite
def produces(draw: st.DrawFn) -> tuple[str, int]:
    """By one of two clients that send the same bytes, to one of two partitions."""
    return draw(st.sampled_from(["alice", "bob"])), draw(st.sampled_from([0, 0, 1]))


CHANGES = st.sampled_from([("refuse", -1), ("refuse alice", -1), ("refuse bob", -1)])


@settings(max_examples=60, deadline=None)
@given(st.lists(produces() | CHANGES, min_size=5, max_size=30))
def test_clients_do_not_share_permissions(actions: list[tuple[str, int]]) -> None:
    assert told_each(actions, short_way=True) == told_each(actions, short_way=False)


def told_each(actions: list[tuple[str, int]], *, short_way: bool) -> tuple[list[bytes], list[object]]:
    """The response to each client, and the quota checks."""
    answers: list[bytes] = []
    asked: list[object] = []

    async def test(node: SimulatedNode) -> None:
        guard, meter = Guard(), Meter()
        serve(node, Gate(guard, meter), short_way=short_way)
        await node.create("t", 2)
        channels = {"alice": await connect_as(node, ALICE), "bob": await connect_as(node, BOB)}
        refused = {"refuse": (), "refuse alice": (ALICE,), "refuse bob": (BOB,)}
        for number, (action, partition) in enumerate(actions):
            if action in refused:
                guard.refuse(*refused[action])
                continue
            frame = encode_request(produce("t", batch("a"), partition=partition, acks=1), 9, number, "test")
            answers.append(bytes(await channels[action].exchange([frame], number)))
        asked.extend(meter.asked)

    simulate(test)
    return answers, asked


def test_cached_requests_are_not_shared_across_principals_or_listeners() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        channel = await node.connect()
        request = produce("t", batch("a"), acks=1)
        frame = encode_request(request, 9, 5, "test")[4:]
        await channel.request(request, 9)
        (connection,) = node.node.server
        info, shortcut = connection.info, shortcut_of(node)
        info.become(ALICE)
        assert shortcut.answer(bytearray(frame), info) is None
        await channel.request(request, 9)
        assert shortcut.answer(bytearray(frame), info) is not None
        other_listener = ConnectionInfo(info._connection, "OTHER", 99)
        other_listener.become(ALICE)
        assert shortcut.answer(bytearray(frame), other_listener) is None

    simulate(test)


def test_the_cache_is_dropped_when_the_authorizer_changes() -> None:
    async def test(node: SimulatedNode) -> None:
        guard = Guard()
        shortcut = serve(node, Gate(guard))._shortcuts[ProduceRequest.api_key]
        await node.create("t")
        channel = await connect_as(node, ALICE)
        request = produce("t", batch("a"), acks=1)
        frame = encode_request(request, 9, 5, "test")[4:]
        await channel.request(request, 9)
        info = next(connection.info for connection in node.node.server if connection.info.principal == ALICE)
        assert shortcut.answer(bytearray(frame), info) is not None
        guard.refuse()
        assert shortcut.answer(bytearray(frame), info) is None

    simulate(test)


def test_the_buffer_of_a_learned_request_can_be_used_again_at_once() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        await node.connect()
        (connection,) = node.node.server
        assert node.node.broker_role is not None
        frame = bytearray(encode_request(produce("t", batch("a"), acks=1), 9, 5, "test")[4:])
        gc.collect()
        gc.disable()
        try:
            assert isinstance(node.node.broker_role.pipeline(frame, connection.info), list)
            assert any(shortcut_of(node)._known)
            # Not as long as somebody has a view of it.
            frame.append(0)
        finally:
            gc.enable()

    simulate(test)


def test_a_refused_request_teaches_nothing() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        request = produce("t", batch("a"), acks=1)
        await channel.request(request, 9)
        assert not any(shortcut_of(node)._known)
        await node.create("t")
        await channel.request(request, 9)
        assert any(shortcut_of(node)._known)

    simulate(test)
