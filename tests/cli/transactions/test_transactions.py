"""`cordwood txn`, against a running cluster."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.client.settings import Settings
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch
from tests.cli.cli_runner import PATIENCE_S, Cli, until


@pytest.fixture
def written(cli: Cli, topic: str) -> str:
    cli("topic", "create", topic, "-p", "2")
    cli("produce", topic, "--partition", "0", stdin=b"before\n")
    return topic


@pytest.fixture
def producer(bootstrap: str, written: str) -> Iterator[Producer]:
    """Has a transaction open under the topic's name: offset 1 of partition 0, offset 0 of partition 1."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{written}", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(written, b"open", partition=partition)
    producer.flush()
    yield producer
    producer.purge()


@pytest.fixture
def hanging(cli: Cli, bootstrap: str, written: str) -> Iterator[int]:
    """The id of a producer whose transaction, from offset 1 of partition 0 on, no coordinator knows of."""
    cli("config", "set", "broker-default", "transaction.partition.verification.enable=false")
    yield asyncio.run(_write_outside_of_a_transaction(bootstrap, written))
    cli("config", "unset", "broker-default", "transaction.partition.verification.enable")


async def _write_outside_of_a_transaction(bootstrap: str, topic: str) -> int:
    settings = Settings(default_api_timeout_ms=round(PATIENCE_S * 1000))
    async with await Client.connect(parse_bootstrap(bootstrap), settings, network=SocketNetwork()) as client:
        await client.topics([topic])
        given = await client.ask_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        assert given.error_code == ErrorCode.NONE
        batch = encode_batch(
            [Record(0, SystemClock().now_ms(), None, b"lost")],
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=f"lost-{topic}",
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
            ],
        )
        # From version 12 on producing adds to a transaction by itself (KIP-890); 11 is the last that does not.
        broker = await client.broker(client.cluster.topics[topic].partitions[0].leader)

        async def attempt() -> int:
            (told,) = (await broker.ask(request, at_most=11)).responses[0].partition_responses
            if told.error_code != ErrorCode.NONE:
                error = BrokerError(told.error_code)
                # A broker of a real cluster gets the setting a moment later.
                error.retriable = error.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
                raise error
            return told.base_offset

        assert await client.retrying(attempt) == 1
        return given.producer_id


def described(cli: Cli, transactional_id: str) -> dict[str, Any]:
    (transaction,) = cli("txn", "describe", transactional_id, "--json").json
    assert isinstance(transaction, dict)
    return transaction


def committed_values(cli: Cli, topic: str) -> list[str]:
    return cli("consume", topic, "--read-committed").lines


# ---- list


def test_a_transaction_is_listed_with_its_state_producer_and_coordinator(
    cli: Cli, written: str, producer: Producer
) -> None:
    (listed,) = cli("txn", "list", f"id-{written}", "--json").json
    assert (listed["transactionalId"], listed["state"]) == (f"id-{written}", "Ongoing")
    assert cli("txn", "list", f"id-{written}").lines == [
        f"id-{written}\tOngoing\t{listed['producerId']}\t{listed['coordinator']}"
    ]
    assert listed["coordinator"] in {broker["id"] for broker in cli("cluster", "--json").json["brokers"]}


def test_transactions_are_listed_by_state_producer_and_duration(cli: Cli, written: str, producer: Producer) -> None:
    def found(*options: str) -> bool:
        return bool(cli("txn", "list", f"id-{written}", *options).lines)

    producer_id = described(cli, f"id-{written}")["producerId"]
    assert found("--state", "ongoing")
    assert not found("--state", "Empty", "--state", "PrepareCommit")
    assert found("--producer-id", str(producer_id))
    assert not found("--producer-id", str(producer_id + 1_000_000))
    assert found("--longer-than", "0s")
    assert not found("--longer-than", "1h")


def test_wrong_values_are_reported_with_the_valid_ones(cli: Cli) -> None:
    assert "'ongoing'" in cli("txn", "list", "--state", "asleep", fails=2).stderr
    assert "expected forms are 500ms, 90s, 15m, 2h, 7d" in cli("txn", "list", "--longer-than", "5", fails=2).stderr


# ---- describe


def test_a_description_has_timeout_start_and_partitions(cli: Cli, written: str, producer: Producer) -> None:
    before_ms = SystemClock().now_ms()
    transaction = described(cli, f"id-{written}")
    assert (transaction["state"], transaction["timeoutMs"]) == ("Ongoing", 60_000)
    assert transaction["startTimestamp"] <= before_ms
    assert transaction["openForMs"] >= 0
    assert transaction["partitions"] == [{"topic": written, "partition": 0}, {"topic": written, "partition": 1}]


def test_ended_transactions_are_not_open(cli: Cli, written: str, producer: Producer) -> None:
    producer.commit_transaction()
    transaction = described(cli, f"id-{written}")
    assert transaction["state"] in ("PrepareCommit", "CompleteCommit")
    assert (transaction["openForMs"] is None) == (transaction["state"] == "CompleteCommit")


def test_a_description_in_a_pipe_is_lines_with_tabs(cli: Cli, written: str, producer: Producer) -> None:
    lines = cli("txn", "describe", f"id-{written}").lines
    assert lines[:2] == [f"transactional id\tid-{written}", "state\tOngoing"]
    assert lines[-2:] == [f"partition\t{written}\t0", f"partition\t{written}\t1"]


@pytest.mark.parametrize("command", ["describe", "abort"])
def test_a_missing_id_is_reported_with_similar_ones(cli: Cli, written: str, producer: Producer, command: str) -> None:
    done = cli("txn", command, f"id-{written[:-1]}", fails=1)
    assert done.stderr.startswith(f"cordwood: there is no transactional id id-{written[:-1]} (did you mean ")
    assert f"id-{written}" in done.stderr


# ---- producers


def test_partitions_report_their_producers_and_open_transactions(cli: Cli, written: str, producer: Producer) -> None:
    producer_id = described(cli, f"id-{written}")["producerId"]
    told = cli("txn", "producers", written, "--json").json
    starts = {one["partition"]: one["currentTxnStartOffset"] for one in told if one["producerId"] == producer_id}
    assert starts == {0: 1, 1: 0}
    # A producer that wrote before, without a transaction, holds nothing open.
    assert [one["currentTxnStartOffset"] for one in told if one["producerId"] != producer_id] == [None]
    lines = [line.split("\t") for line in cli("txn", "producers", f"{written}:1").lines]
    assert [(line[0], line[1], line[2], line[-1]) for line in lines] == [(written, "1", str(producer_id), "0")]


# ---- abort by id


def test_an_open_transaction_is_aborted_and_its_producer_fenced(cli: Cli, written: str, producer: Producer) -> None:
    before = described(cli, f"id-{written}")
    (line,) = cli("txn", "abort", f"id-{written}").lines
    after = described(cli, f"id-{written}")
    old, new = (f"producer {one['producerId']} (epoch {one['producerEpoch']})" for one in (before, after))
    assert line == (f"aborted the transaction of id-{written} by taking the id over: its {old} is fenced by {new}")
    assert (after["state"], after["partitions"], after["timeoutMs"]) == ("Empty", [], 60_000)
    assert committed_values(cli, written) == ["before"]
    with pytest.raises(KafkaException):
        producer.commit_transaction()


def test_nothing_is_aborted_where_nothing_is_open(cli: Cli, written: str, producer: Producer) -> None:
    producer.abort_transaction()
    done = cli("txn", "abort", f"id-{written}", fails=1)
    assert done.stderr.startswith(f"cordwood: transactional id id-{written} has no open transaction; its state is ")


# ---- abort of what hangs


def test_a_transaction_that_hangs_is_found(cli: Cli, written: str, hanging: int) -> None:
    (found,) = cli("txn", "find-hanging", written, "--older-than", "0s", "--json").json
    assert (found["topic"], found["partition"]) == (written, 0)
    assert (found["producerId"], found["currentTxnStartOffset"]) == (hanging, 1)
    assert [line.split("\t")[:4] for line in cli("txn", "find-hanging", "--older-than", "0s").lines] == [
        [written, "0", "1", str(hanging)]
    ]
    cli("txn", "abort", "--topic", f"{written}:0", "--producer-id", str(hanging))


def test_a_transaction_within_its_timeout_does_not_hang(cli: Cli, written: str, producer: Producer) -> None:
    assert cli("txn", "find-hanging", written, "--older-than", "0s").lines == []


def test_a_recently_written_transaction_does_not_hang_yet(cli: Cli, written: str, hanging: int) -> None:
    assert cli("txn", "find-hanging", written).lines == []
    cli("txn", "abort", "--topic", f"{written}:0", "--producer-id", str(hanging))


@pytest.mark.parametrize("by", ["start-offset", "producer-id"])
def test_a_transaction_that_hangs_is_aborted_in_its_partition(cli: Cli, written: str, hanging: int, by: str) -> None:
    cli("produce", written, "--partition", "0", stdin=b"after\n")
    assert committed_values(cli, written) == ["before"]
    value = "1" if by == "start-offset" else str(hanging)
    (line,) = cli("txn", "abort", "--topic", f"{written}:0", f"--{by}", value).lines
    assert line == (
        f"aborted the transaction of producer {hanging} (epoch 0) by an abort marker in {written}-0, and nowhere else"
    )
    assert committed_values(cli, written) == ["before", "after"]
    assert cli("txn", "find-hanging", written, "--older-than", "0s").lines == []


def test_a_transaction_known_to_a_coordinator_cannot_be_aborted_in_a_partition(
    cli: Cli, written: str, producer: Producer
) -> None:
    done = cli("txn", "abort", "--topic", f"{written}:0", "--start-offset", "1", fails=1)
    assert done.stderr == (
        f"cordwood: the transaction in {written}-0 does not hang: it is Ongoing as id-{written}, "
        f"which cordwood txn abort id-{written} aborts\n"
    )
    producer.commit_transaction()
    # The markers are written after the answer.
    until(lambda: sorted(committed_values(cli, written)) == ["before", "open", "open"])


def test_a_missing_transaction_is_reported_with_the_existing_ones(cli: Cli, written: str, producer: Producer) -> None:
    producer_id = described(cli, f"id-{written}")["producerId"]
    done = cli("txn", "abort", "--topic", f"{written}:0", "--start-offset", "99", fails=1)
    assert done.stderr == (
        f"cordwood: {written}-0 has no open transaction from offset 99 on; "
        f"there is from 1 on of producer {producer_id}\n"
    )


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ([], "give either a transactional id or --topic"),
        (["id", "--topic", "t:0"], "give either a transactional id or --topic"),
        (["id", "--producer-id", "1"], "need --topic"),
        (["--topic", "t:0"], "needs either --start-offset or --producer-id"),
        (["--topic", "t:0", "--start-offset", "1", "--producer-id", "1"], "needs either --start-offset or"),
        (["--topic", "t", "--start-offset", "1"], "'t' does not name one partition"),
        (["--topic", "t:0,1", "--start-offset", "1"], "'t:0,1' does not name one partition"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_reported(cli: Cli, options: list[str], refusal: str) -> None:
    assert refusal in cli("txn", "abort", *options, fails=2).stderr
