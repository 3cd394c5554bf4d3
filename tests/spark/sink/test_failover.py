"""The sink on three brokers in virtual time, of which one after the other is killed: every row is visible once, and the
query continues without a new start."""

import asyncio

import pytest

from cordwood.client.admin.topics import NewTopic, create_topics
from tests.common.three_brokers import ThreeBrokers, with_three_brokers
from tests.spark.sink.test_simulated import ALL, PARTITIONS, TOPIC, Stage


@pytest.mark.parametrize("seed", range(3))
def test_a_query_continues_while_brokers_are_killed(seed: int) -> None:
    async def scene(cluster: ThreeBrokers) -> None:
        stage = Stage(cluster.world, cluster.machines[1], seed, cluster.bootstrap)
        async with await stage.client() as client:
            await create_topics(client, [NewTopic(TOPIC, PARTITIONS)])
        life = asyncio.ensure_future(stage.life())
        kills = 0
        while not life.done():
            await asyncio.sleep(stage.chance.uniform(0, 0.05))
            kills += not life.done()
            broker_id = stage.chance.choice([1, 2, 3])
            cluster.kill(broker_id)
            await asyncio.sleep(stage.chance.uniform(0.3, 2))
            await cluster.restart(broker_id)
            await cluster.until_in_sync(TOPIC)
        await life
        assert kills > 1
        assert await stage.open() == set()
        assert await stage.visible() == ALL
        assert stage.lives == 1

    with_three_brokers(scene, seed=seed, default_replication_factor="3", min_insync_replicas="2")
