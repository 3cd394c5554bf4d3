"""The node logs the end of a transaction that its producer did not end."""

from __future__ import annotations

import pytest

from cordwood.coordinator.transactions.housekeeping import abort_timed_out
from tests.coordinator.transactions.txn_desk import Desk


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cordwood.coordinator.transactions")


def test_a_timeout_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.add(desk.begin().producer_id, 0)
    desk.time.passed_ms += 60_001
    desk.decide(abort_timed_out)
    desk.ring()
    assert caplog.messages == [
        "the transaction of tx (producer 100, epoch 0) is aborted: it is open for longer than its 60000 ms"
    ]


def test_a_producer_that_replaces_another_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.add(desk.begin().producer_id, 0)
    desk.begin()
    assert caplog.messages == [
        "the transaction of tx (producer 100, epoch 0) is aborted: a producer begins with that id"
    ]


def test_a_decided_transaction_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    producer = desk.begin().producer_id
    desk.add(producer, 0)
    desk.end(producer, 0, commit=True)
    desk.complete()
    desk.begin()
    assert caplog.messages == []
