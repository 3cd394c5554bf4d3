"""An administrator that gives topics more partitions, which their groups have to share out."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Client, Over
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_MAX_PAUSE_S = 10.0
_MAX_PARTITIONS = 5
_TIMEOUT_MS = 1_000


class Grower(Client):
    async def work(self) -> None:
        try:
            while True:
                await self.pause(_MAX_PAUSE_S)
                topic = self.source.choice(list(self.run.topic_ids))
                try:
                    await self._grow(topic)
                    await self._look(topic)
                except NetworkError:
                    continue
        except Over:
            return

    async def _grow(self, topic: str) -> None:
        count = sum(name == topic for name, _ in self.run.partitions) + 1
        if count <= _MAX_PARTITIONS:
            grown = CreatePartitionsTopic(name=topic, count=count, assignments=None)
            await self.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=_TIMEOUT_MS))

    async def _look(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self.ask(request, MetadataRequest.stable_versions.high)
        for described in response.topics:
            found = [(topic, partition.partition_index) for partition in described.partitions]
            self.run.partitions += [partition for partition in sorted(found) if partition not in self.run.partitions]
