"""A topic's settings, once changed, hold for each of its partitions, wherever their replicas are."""

from __future__ import annotations

from cordwood.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

_TOPIC = 2


async def create(cluster: ThreeBrokers, *replicas: list[int]) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)
    ]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    response = await cluster.broker(1).controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    assert not response.topics[0].error_code, response


async def configure(cluster: ThreeBrokers, name: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=_TOPIC, resource_name="t", configs=[AlterableConfig(name=name, config_operation=0, value=value)]
    )
    response = await cluster.broker(1).controller.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert not response.responses[0].error_code, response


def test_settings_reach_a_broker_that_has_some_of_the_topics_partitions_only() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await create(cluster, [1, 2], [2, 3], [2, 1], [3, 2])
        await configure(cluster, "min.insync.replicas", "2")
        await configure(cluster, "retention.ms", "12345")
        configs = [cluster.broker(broker_id).topic_configs for broker_id in (1, 2, 3)]
        await cluster.until(lambda: all(each.of("t").log.retention_ms == 12345 for each in configs))
        for broker_id, index in (1, 0), (1, 2), (2, 3), (3, 1), (3, 3):
            partition = cluster.partition(broker_id, "t", index)
            assert partition.config.min_insync_replicas == 2
            assert partition.log is not None
            assert partition.log.config.retention_ms == 12345

    with_three_brokers(test)
