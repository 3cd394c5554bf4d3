"""The output of `cordwood txn describe`, and the choice of transactions."""

from collections.abc import Sequence
from typing import Any

from cordwood.cli.framework.name_choice import NoSuchName, choose_names
from cordwood.cli.framework.times import duration_text, time_text
from cordwood.cli.terminal.output import print_facts, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.transactions import TransactionDescription
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode

_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


async def choose_transactions(admin: Admin, patterns: Sequence[str]) -> list[TransactionDescription]:
    """Raises a `ClientError` for a missing id."""
    known = [transaction.transactional_id for transaction in await admin.list_transactions()]
    names = choose_names("transactional id", known, patterns)
    return list((await admin.describe_transactions(names)).values())


async def describe_one(admin: Admin, transactional_id: str) -> TransactionDescription:
    """Raises a `ClientError` if it does not exist."""
    try:
        return (await admin.describe_transactions([transactional_id]))[transactional_id]
    except BrokerError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        known = [transaction.transactional_id for transaction in await admin.list_transactions()]
        raise NoSuchName("transactional id", transactional_id, known) from error


def described_as_json(transaction: TransactionDescription, now_ms: int) -> dict[str, Any]:
    start_ms = transaction.start_ms
    open_ms = now_ms - start_ms if start_ms is not None and transaction.state in _OPEN else None
    return {
        "transactionalId": transaction.transactional_id,
        "state": transaction.state,
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator,
        "timeoutMs": transaction.timeout_ms,
        "startTimestamp": start_ms,
        "openForMs": None if open_ms is None else max(0, open_ms),
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition} for partition in transaction.partitions
        ],
    }


def print_transactions(described: Sequence[dict[str, Any]]) -> None:
    for position, transaction in enumerate(described):
        if position:
            print()
        start_ms, open_for_ms = transaction["startTimestamp"], transaction["openForMs"]
        print_facts(
            [
                ("transactional id", transaction["transactionalId"]),
                ("state", transaction["state"]),
                ("producer id", transaction["producerId"]),
                ("producer epoch", transaction["producerEpoch"]),
                ("coordinator", transaction["coordinator"]),
                ("timeout", duration_text(transaction["timeoutMs"])),
                ("start", None if start_ms is None else time_text(start_ms)),
                ("open for", None if open_for_ms is None else duration_text(open_for_ms)),
            ]
        )
        if transaction["partitions"]:
            print_table(
                ("topic", "partition"),
                [(partition["topic"], partition["partition"]) for partition in transaction["partitions"]],
                title="Partitions",
                kind="partition",
            )
