"""The marker of a transaction: a control batch in each of its partitions."""

from __future__ import annotations

from typing import NamedTuple


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    # The version of the client that ended the transaction: from 2 on each end has its own epoch.
    transaction_version: int
