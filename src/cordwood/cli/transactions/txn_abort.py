"""`cordwood txn abort`: by transactional id through its coordinator, or in a partition where the transaction hangs."""

from functools import partial
from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.completion import complete_topic, complete_transaction
from cordwood.cli.terminal.consent import Yes, confirm
from cordwood.cli.terminal.output import counted
from cordwood.cli.topics.partition_choice import PartitionChoice, chosen_partitions, parse_partition_choices
from cordwood.cli.transactions.txn_description import describe_one
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.transactions import OpenTransaction, TransactionDescription
from cordwood.client.errors import ClientError


@reaching_cluster
def abort(
    access: Access,
    transactional_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="A transactional id: its coordinator aborts the open transaction and fences the producer.",
            show_default=False,
            autocompletion=complete_transaction,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC:PARTITION",
            help="Instead of an ID: a partition with a hanging transaction, which no coordinator knows.",
            autocompletion=complete_topic,
        ),
    ] = None,
    start_offset: Annotated[
        int | None, typer.Option(min=0, help="With --topic: first offset of the transaction (txn find-hanging).")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(min=0, help="With --topic: producer id of the transaction.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Abort a transaction: one that is open, by its ID; one that hangs, by its partition.

    By ID, the transactional id is taken over (InitProducerId): the transaction is aborted in all its partitions, and
    its producer is fenced.

    With --topic, an abort marker is written to that partition alone (WriteTxnMarkers); refused while a coordinator
    knows the transaction.
    """
    if (transactional_id is None) == (topic is None):
        raise typer.BadParameter("give either a transactional id or --topic", param_hint="ID")
    if topic is not None:
        if (start_offset is None) == (producer_id is None):
            raise typer.BadParameter("needs either --start-offset or --producer-id", param_hint="--topic")
        _abort_hanging(access, _one_partition(topic), start_offset, producer_id, yes)
        return
    assert transactional_id is not None
    if start_offset is not None or producer_id is not None:
        raise typer.BadParameter("need --topic", param_hint="--start-offset and --producer-id")
    _abort_open(access, transactional_id, yes)


def _abort_open(access: Access, transactional_id: str, yes: bool) -> None:
    async def look(admin: Admin) -> TransactionDescription:
        transaction = await describe_one(admin, transactional_id)
        if transaction.state != "Ongoing":
            raise ClientError(
                f"transactional id {transactional_id} has no open transaction; its state is {transaction.state}"
            )
        return transaction

    transaction = run(access, look)
    confirm(
        f"Abort the transaction of {transactional_id} in {counted(len(transaction.partitions), 'partition')}, "
        f"and fence its producer {transaction.producer_id} (epoch {transaction.producer_epoch})?",
        yes,
    )
    fence = partial(
        Admin.fence_producers, transactional_ids=[transactional_id], transaction_timeout_ms=transaction.timeout_ms
    )
    taken = run(access, fence)[transactional_id]
    print(
        f"aborted the transaction of {transactional_id} by taking the id over: its producer {transaction.producer_id} "
        f"(epoch {transaction.producer_epoch}) is fenced by producer {taken.producer_id} (epoch {taken.producer_epoch})"
    )


def _abort_hanging(
    access: Access, choice: PartitionChoice, start_offset: int | None, producer_id: int | None, yes: bool
) -> None:
    async def look(admin: Admin) -> OpenTransaction:
        transaction = await _open_transaction(admin, choice, start_offset, producer_id)
        owner = (await admin.find_transaction_owners([transaction]))[transaction]
        if owner is not None:
            name = owner.transactional_id
            raise ClientError(
                f"the transaction in {transaction.partition} does not hang: it is {owner.state} as {name}, "
                f"which cordwood txn abort {name} aborts"
            )
        return transaction

    transaction = run(access, look)
    producer = transaction.producer
    whose = f"producer {producer.producer_id} (epoch {producer.producer_epoch})"
    confirm(
        f"Abort the transaction of {whose} that {transaction.partition} holds open from offset "
        f"{producer.txn_start_offset} on?",
        yes,
    )
    run(access, partial(Admin.abort_transaction, hanging=transaction))
    print(f"aborted the transaction of {whose} by an abort marker in {transaction.partition}, and nowhere else")


async def _open_transaction(
    admin: Admin, choice: PartitionChoice, start_offset: int | None, producer_id: int | None
) -> OpenTransaction:
    """Returns the open transaction. Raises a `ClientError` that lists the open ones."""
    (partition,) = await chosen_partitions(admin, [choice])
    transactions = await admin.list_open_transactions([partition])
    for transaction in transactions:
        if start_offset in (None, transaction.producer.txn_start_offset) and producer_id in (
            None,
            transaction.producer.producer_id,
        ):
            return transaction
    wanted = f"from offset {start_offset} on" if start_offset is not None else f"of producer {producer_id}"
    there = ", ".join(
        f"from {transaction.producer.txn_start_offset} on of producer {transaction.producer.producer_id}"
        for transaction in transactions[:5]
    )
    raise ClientError(f"{partition} has no open transaction {wanted}; there is {there or 'none'}")


def _one_partition(text: str) -> PartitionChoice:
    (choice,) = parse_partition_choices([text], "--topic")
    if len(choice.partitions) != 1:
        raise typer.BadParameter(f"{text!r} does not name one partition, as TOPIC:PARTITION does", param_hint="--topic")
    return choice
