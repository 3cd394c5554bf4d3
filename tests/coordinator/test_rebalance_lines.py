"""Rebalances of both kinds of groups are logged at INFO, and replaying a log says nothing."""

from __future__ import annotations

import logging
import re

import pytest

from tests.coordinator import classic_stage, consumer_stage

CLASSIC = "cordwood.coordinator.groups.classic"
CONSUMER = "cordwood.coordinator.groups.consumer"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if re.match(r"Group \S+ \(", record.getMessage())]


def test_a_classic_group_logs_its_generations(caplog: pytest.LogCaptureFixture) -> None:
    async def test(stage: classic_stage.Stage) -> None:
        first, second = await stage.stable()
        stage.leave(second)
        stage.leave(first)
        before = len(lines(caplog))
        stage.load_again()
        assert len(lines(caplog)) == before

    with caplog.at_level(logging.INFO, CLASSIC):
        classic_stage.play(test)
    group = f"Group {classic_stage.GROUP} (classic): "
    assert [re.sub(r"(from generation \d+): .*", r"\1", line) for line in lines(caplog)] == [
        f"{group}rebalancing from generation 0",
        f"{group}generation 1 (members: 2)",
        f"{group}rebalancing from generation 1",
        f"{group}generation 2 (members: 0)",
    ]


def test_a_consumer_group_logs_its_epochs(caplog: pytest.LogCaptureFixture) -> None:
    async def test(stage: consumer_stage.Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        stage.join("b", "orders")
        stage.heartbeat("a", 2)
        stage.heartbeat("b", -1)
        stage.heartbeat("a", -1)
        before = len(lines(caplog))
        stage.load_again()
        assert len(lines(caplog)) == before

    with caplog.at_level(logging.INFO, CONSUMER):
        consumer_stage.play(test, group_consumer_assignment_interval_ms="0")
    group = f"Group {consumer_stage.GROUP} (consumer): "
    assert lines(caplog) == [
        f"{group}rebalancing to epoch 2 (members: 1, assignor: uniform)",
        f"{group}rebalancing to epoch 3 (members: 2, assignor: uniform)",
        f"{group}members gone: 1, remaining: 1 (epoch 4)",
        f"{group}members gone: 1, remaining: 0 (epoch 5)",
    ]
