"""Scenarios by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from data_answers.asking import Asking

from .deleting import deleting_records
from .fetch_sessions import fetch_sessions
from .fetching import fetching
from .offsets import leader_epochs, listing_offsets
from .producers import idempotence, producer_ids
from .producing import produce_configs, producing
from .transactional_ids import (
    internal_topics,
    transaction_markers,
    transactional_ids,
    transactions_found,
    transactions_of_version_1,
    transactions_of_version_2,
)
from .transactions import read_committed

SCENARIOS: dict[str, Callable[[Asking], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        deleting_records,
        fetch_sessions,
        fetching,
        idempotence,
        internal_topics,
        leader_epochs,
        listing_offsets,
        produce_configs,
        producer_ids,
        producing,
        read_committed,
        transaction_markers,
        transactional_ids,
        transactions_found,
        transactions_of_version_1,
        transactions_of_version_2,
    )
}
