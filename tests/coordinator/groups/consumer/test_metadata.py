"""Topic and time state of consumer groups under concurrent changes."""

from __future__ import annotations

from dataclasses import replace

from cordwood.coordinator.groups.consumer.topics import SubscribedTopics
from cordwood.coordinator.groups.deletion import delete_groups
from tests.coordinator.consumer_stage import GROUP, Stage, assigned, play


def test_an_assignment_does_not_wait_for_a_clock_that_was_put_back() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 2)
        stage.join("a", "orders")
        # As if the clock had been ahead then.
        stage.group.assignment_timestamp_ms += 3_600_000
        stage.join("b", "orders")
        assert stage.group.assignment_epoch == stage.group.epoch

    play(test, group_consumer_assignment_interval_ms="1000")


def test_a_regular_expression_does_not_wait_for_a_clock_that_was_put_back() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", subscribed_topic_regex="o.*")
        await stage.wait(1)
        group = stage.group
        group.resolved = {
            regex: replace(resolved, timestamp_ms=resolved.timestamp_ms + 3_600_000)
            for regex, resolved in group.resolved.items()
        }
        stage.create("offers", 1)
        stage.heartbeat("a", group.members["a"].epoch)
        await stage.wait(1)
        assert group.resolved["o.*"].topics == {"orders", "offers"}

    play(test)


def test_a_loaded_group_notices_earlier_topic_changes() -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 1)
        stage.join("a", "orders")
        stage.heartbeat("a", -1)
        stage.shard.decide(lambda state: delete_groups(state, [GROUP]))
        assert not stage.state.groups
        stage.grow("orders", 3)
        response = stage.join("b", "orders")
        assert len(assigned(response) or ()) == 3
        assert stage.group.metadata_hash == SubscribedTopics().hash_of(["orders"], stage.state.image)

    play(test)
