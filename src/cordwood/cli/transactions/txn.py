"""`cordwood txn`: list, describe, producers, find-hanging, abort."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.completion import complete_topic, complete_transaction
from cordwood.cli.framework.name_choice import choose_names
from cordwood.cli.framework.times import duration_text, parse_duration_ms, time_text
from cordwood.cli.terminal.output import print_json, print_table
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.cli.transactions.txn_abort import abort
from cordwood.cli.transactions.txn_description import choose_transactions, described_as_json, print_transactions
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.transactions import (
    ActiveProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from cordwood.client.cluster import TopicPartition
from cordwood.runtime.clock import SystemClock
from cordwood.spark.sink.names import TRANSACTIONAL_ID_PREFIX

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True, add_completion=False)


class State(StrEnum):
    """The state names that brokers use."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


OptionalPatterns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID",
        help="Transactional ids, or patterns such as 'etl-*'.",
        show_default=False,
        autocompletion=complete_transaction,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command(
    "list",
    epilog="Examples:\n\n"
    "cordwood txn list\n\n"
    "cordwood txn list 'etl-*' --state ongoing --longer-than 5m\n\n"
    "cordwood txn list --producer-id 4000 --json",
)
@reaching_cluster
def list_all(
    access: Access,
    patterns: OptionalPatterns = None,
    states: Annotated[
        list[State] | None,
        typer.Option("--state", "-s", case_sensitive=False, help="Only transactions in this state; may be repeated."),
    ] = None,
    producer_ids: Annotated[
        list[int] | None, typer.Option("--producer-id", min=0, help="Only this producer id; may be repeated.")
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only those open for longer: 90s, 15m, 2h (Kafka 3.8 or later)."),
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="Include those of the Spark sink.")] = False,
    as_json: AsJson = False,
) -> None:
    """List transactional ids with their state, producer id and coordinator."""
    running_ms = None if longer_than is None else _duration_ms(longer_than, "--longer-than")

    async def work(admin: Admin) -> list[TransactionListing]:
        listed = await admin.list_transactions(
            states=states or [], producer_ids=producer_ids or [], running_ms=running_ms
        )
        known = {transaction.transactional_id: transaction for transaction in listed}
        chosen = choose_names("transactional id", list(known), patterns or [], missing_ok=True)
        return [known[name] for name in chosen if internal or not _is_hidden(name, patterns or [])]

    transactions = run(access, work)
    if as_json:
        print_json([_listed_as_json(transaction) for transaction in transactions])
    else:
        print_table(
            ("transactional id", "state", "producer id", "coordinator"),
            [(one.transactional_id, one.state, one.producer_id, one.coordinator) for one in transactions],
        )


@app.command(
    epilog="Examples:\n\ncordwood txn describe etl-1\n\ncordwood txn describe 'etl-*' --json",
)
@reaching_cluster
def describe(
    access: Access,
    patterns: Annotated[
        list[str],
        typer.Argument(
            metavar="ID",
            help="Transactional ids, or patterns such as 'etl-*'.",
            show_default=False,
            autocompletion=complete_transaction,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show transactions: state, producer, timeout, since when one is open, and the partitions it has written to."""

    async def work(admin: Admin) -> list[TransactionDescription]:
        return await choose_transactions(admin, patterns)

    now_ms = SystemClock().now_ms()
    described = [described_as_json(transaction, now_ms) for transaction in run(access, work)]
    if as_json:
        print_json(described)
    else:
        print_transactions(described)


@app.command(epilog="Examples:\n\ncordwood txn producers orders\n\ncordwood txn producers orders:0,1 --json")
@reaching_cluster
def producers(
    access: Access,
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITION,...]",
            help="Topics, or some of their partitions.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show the producers that partitions remember, and where their open transactions begin."""
    choices = parse_partition_choices(topics, "TOPIC")

    async def work(admin: Admin) -> dict[TopicPartition, list[ActiveProducer]]:
        return await admin.describe_producers(await chosen_partitions(admin, choices))

    rows = [(partition, producer) for partition, found in run(access, work).items() for producer in found]
    if as_json:
        print_json([_producer_as_json(partition, producer) for partition, producer in rows])
    else:
        print_table(
            ("topic", "partition", "producer id", "epoch", "coordinator epoch", "sequence", "last write", "open from"),
            [
                (
                    partition.topic,
                    partition.partition,
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.coordinator_epoch,
                    producer.last_sequence,
                    time_text(producer.last_timestamp),
                    producer.txn_start_offset,
                )
                for partition, producer in rows
            ],
        )


@app.command(
    "find-hanging",
    epilog="Examples:\n\ncordwood txn find-hanging\n\ncordwood txn find-hanging orders:0,1 --older-than 1h --json",
)
@reaching_cluster
def find_hanging(
    access: Access,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITION,...]",
            help="Topics, or some of their partitions; default: all.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Only those without a write for this long; transaction.max.timeout.ms is a good choice.",
        ),
    ] = "15m",
    as_json: AsJson = False,
) -> None:
    """Find transactions that are open in a partition but unknown to any coordinator; txn abort --topic ends them."""
    choices = parse_partition_choices(topics or [], "TOPIC")
    now_ms = SystemClock().now_ms()
    before_ms = now_ms - _duration_ms(older_than, "--older-than")

    async def work(admin: Admin) -> list[OpenTransaction]:
        partitions = await (chosen_partitions(admin, choices) if choices else _all_partitions(admin))
        transactions = await admin.list_open_transactions(partitions)
        old = [transaction for transaction in transactions if transaction.producer.last_timestamp <= before_ms]
        return [
            transaction for transaction, owner in (await admin.find_transaction_owners(old)).items() if owner is None
        ]

    hanging = run(access, work)
    if as_json:
        print_json([_producer_as_json(transaction.partition, transaction.producer) for transaction in hanging])
    else:
        print_table(
            ("topic", "partition", "open from", "producer id", "epoch", "last write", "ago"),
            [
                (
                    transaction.partition.topic,
                    transaction.partition.partition,
                    transaction.producer.txn_start_offset,
                    transaction.producer.producer_id,
                    transaction.producer.producer_epoch,
                    time_text(transaction.producer.last_timestamp),
                    duration_text(max(0, now_ms - transaction.producer.last_timestamp)),
                )
                for transaction in hanging
            ],
        )


app.command(
    "abort",
    epilog="Examples:\n\n"
    "cordwood txn abort etl-1\n\n"
    "cordwood txn abort --topic orders:0 --start-offset 1200\n\n"
    "cordwood txn abort --topic orders:0 --producer-id 4000 --yes",
)(abort)


async def _all_partitions(admin: Admin) -> Sequence[TopicPartition]:
    """Returns the partitions that have a leader."""
    return [
        TopicPartition(topic.name, partition.index)
        for topic in (await admin.list_topics(internal=True)).values()
        for partition in topic.partitions
        if partition.leader in admin.client.cluster.brokers
    ]


def _is_hidden(transactional_id: str, patterns: Sequence[str]) -> bool:
    """True for ids of the Spark sink, unless a pattern matches them."""
    prefix = TRANSACTIONAL_ID_PREFIX
    return transactional_id.startswith(prefix) and not any(pattern.startswith(prefix) for pattern in patterns)


def _duration_ms(text: str, option: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _listed_as_json(transaction: TransactionListing) -> dict[str, Any]:
    return {
        "transactionalId": transaction.transactional_id,
        "state": transaction.state,
        "producerId": transaction.producer_id,
        "coordinator": transaction.coordinator,
    }


def _producer_as_json(partition: TopicPartition, producer: ActiveProducer) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestamp": producer.last_timestamp,
        "currentTxnStartOffset": producer.txn_start_offset,
    }
