"""Sends what the machine asks for, one request at a time: a thin shell over the client."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from cordwood.client.client import Client
from cordwood.client.producer.transactions.machine import Transactions


class TransactionDriver:
    """`run` is a task of the producer's; `wake` it whenever the machine was called or a batch was completed.

    `has_incomplete` says whether batches are unsent or unacknowledged. `on_change` is called (with the lock free)
    after each answer: the sender may have more to do. The machine is called under `lock`.
    """

    def __init__(
        self,
        client: Client,
        machine: Transactions,
        *,
        lock: AbstractContextManager[Any],
        has_incomplete: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None: ...

    def wake(self) -> None:
        """From the loop's thread."""

    async def run(self) -> None:
        """Until it is cancelled."""
