"""`cordwood leader elect` against brokers that answer as a test says."""

from typing import Any

from cordwood.cli.topics.leader import topics_once_elected
from cordwood.client.cluster import TopicPartition
from cordwood.wire.messages.metadata import MetadataRequest
from tests.client.scripted_administration import admin_of
from tests.client.scripted_broker import scripted_brokers
from tests.client.scripted_coordinators import run


def test_a_broker_that_has_not_applied_an_election_yet_is_asked_again() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            broker = brokers[0]
            broker.leader_epoch = 4
            metadata = broker.answers[MetadataRequest.api_key]
            answers = 0

            def late(request: MetadataRequest, version: int) -> Any:
                nonlocal answers
                answers += 1
                if answers == 3:
                    broker.leaders, broker.leader_epoch = [2], 5
                return metadata(request, version)

            async with admin_of(broker) as admin:
                before = await admin.client.topics({"t"})
                broker.answers[MetadataRequest.api_key] = late
                known = await topics_once_elected(admin, [TopicPartition("t", 0)], [], before)
            assert (before["t"].partitions[0].leader, known["t"].partitions[0].leader) == (1, 2)
            assert answers == 3

    run(main())
