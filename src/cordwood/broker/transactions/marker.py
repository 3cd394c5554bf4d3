"""The marker of a transaction: a control batch in each of its partitions."""

from __future__ import annotations

from typing import NamedTuple


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    # Of the client that ended the transaction: from 2 on an end has an epoch of its own.
    transaction_version: int
