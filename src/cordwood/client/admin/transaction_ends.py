"""Ends transactions on behalf of the producers that left them (`Producer.leave_transaction`).

The caller may have tried before without learning the outcome. Coordinators recognise a retry by its epoch or by the
transaction's state; if they refuse it nevertheless, the transaction's description reveals the outcome.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from cordwood.client.admin.coordinators import CoordinatorKind, ask_coordinators
from cordwood.client.admin.transactions import TransactionDescription, describe_transactions
from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.transactions import requests
from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.wire.errors import ErrorCode

_IN_DOUBT: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


async def end_transactions(
    client: Client, transactions: Collection[LeftTransaction], *, commit: bool
) -> dict[LeftTransaction, BrokerError | None]:
    """Returns None for each transaction that has ended as requested, now or earlier; otherwise the reason why it
    cannot.

    Aborting a transaction that no longer exists is no error, unless it was committed.
    """
    left = {transaction.transactional_id: transaction for transaction in transactions}

    async def ask(
        broker_id: int, broker: BrokerConnection, asked: Mapping[str, LeftTransaction]
    ) -> Mapping[str, bool | BrokerError]:
        ended = await asyncio.gather(*(_end(broker, transaction, commit) for transaction in asked.values()))
        return dict(zip(asked, ended, strict=True))

    answers = await ask_coordinators(client, CoordinatorKind.TRANSACTION, left, ask)
    doubtful = [key for key, answer in answers.items() if isinstance(answer, BrokerError) and answer.code in _IN_DOUBT]
    described = await describe_transactions(client, doubtful) if doubtful else {}
    outcomes: dict[LeftTransaction, BrokerError | None] = {}
    for transactional_id, answer in answers.items():
        transaction = left[transactional_id]
        if isinstance(answer, BrokerError) and transactional_id in described:
            outcomes[transaction] = _judge(transaction, described[transactional_id], answer, commit)
        else:
            outcomes[transaction] = answer if isinstance(answer, BrokerError) else None
    return outcomes


async def _end(broker: BrokerConnection, transaction: LeftTransaction, commit: bool) -> bool | BrokerError:
    identity = ProducerIdentity(transaction.producer_id, transaction.epoch)
    ask = requests.end_txn(transaction.transactional_id, identity, commit=commit, version_2=transaction.is_version_2)
    response = await broker.ask(ask.request, at_least=ask.at_least, at_most=ask.at_most)
    if response.error_code == ErrorCode.NONE:
        return True
    return BrokerError(response.error_code, subject=f"transactional id {transaction.transactional_id}")


def _judge(
    transaction: LeftTransaction,
    description: TransactionDescription | BrokerError,
    refusal: BrokerError,
    commit: bool,
) -> BrokerError | None:
    if isinstance(description, BrokerError):
        # It ended long ago and was forgotten.
        return refusal if commit else None
    # The end of a transaction of version 2 has its own epoch.
    is_this = description.producer_id == transaction.producer_id and description.producer_epoch in (
        transaction.epoch,
        transaction.epoch + 1,
    )
    was_committed = is_this and description.state in _COMMITTED
    return None if was_committed == commit else refusal
