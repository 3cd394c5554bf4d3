"""The client of a workload that makes topics, asks for offsets, deletes records, and moves partitions about."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.histories.history import Deletion
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.primitives import uuid_text

from .client import Client, Over
from .offsets import EARLIEST, LATEST, list_offset

_TIMEOUT_MS = 3_000
_MAX_PAUSE_S = 2.0
_TOPIC_IDS_SINCE = 10
_MAX_TOPICS = 5


class Admin(Client):
    async def work(self) -> None:
        try:
            while True:
                await self.pause(_MAX_PAUSE_S)
                action = self.source.choice((self._list, self._list, self._delete, self._create, self.move, self.move))
                try:
                    await action()
                except NetworkError:
                    continue
        except Over:
            return

    async def make_topics(self, names: list[str]) -> None:
        """By asking for them; returns when they are there and led."""
        while not all(name in self.run.topic_ids for name in names):
            try:
                await self._look_for(names)
            except NetworkError:
                await self.pause(0.2)

    async def make_compacted_topic(self, name: str) -> None:
        """Creates a compacted topic."""
        self.run.history.compacted.add(name)
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=1,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
                )
            ]
        )
        while True:
            response = await self.ask_until_answered(request)
            if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            await self.pause(0.2)
        await self.make_topics([name])

    async def _look_for(self, names: list[str]) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        version = self.source.randint(_TOPIC_IDS_SINCE, MetadataRequest.stable_versions.high)
        response = await self.ask(request, version)
        for topic in response.topics:
            if topic.error_code or topic.name is None or topic.name in self.run.topic_ids:
                continue
            self.run.topic_ids[topic.name] = topic.topic_id
            self.run.history.topics[topic.name] = uuid_text(topic.topic_id)
            self.run.partitions += sorted((topic.name, partition.partition_index) for partition in topic.partitions)

    async def _create(self) -> None:
        if len(self.run.topic_ids) < _MAX_TOPICS:
            await self._look_for([f"late-{len(self.run.topic_ids)}"])

    async def _list(self) -> None:
        partition = self.source.choice(self.run.partitions)
        await list_offset(self, partition, self.source.choice((EARLIEST, LATEST)))

    async def move(self) -> None:
        """Starts a move; concurrent reads and writes show whether it worked."""
        topic, index = self.source.choice(self.run.partitions)
        path = self.source.choice(list(self.run.machine.disks))
        moved = AlterReplicaLogDirTopic(name=topic, partitions=[index])
        await self.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[moved])]))

    async def _delete(self) -> None:
        partition = self.source.choice(self.run.partitions)
        if partition[0] in self.run.history.compacted:
            return
        latest = await list_offset(self, partition, LATEST)
        if latest is None or not latest.offset:
            return
        deletion = Deletion(partition, self.source.randrange(latest.offset + 1), self.run.now_s)
        self.run.history.deletions.append(deletion)
        response = await self.ask(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=partition[0],
                        partitions=[DeleteRecordsPartition(partition_index=partition[1], offset=deletion.offset)],
                    )
                ],
                timeout_ms=_TIMEOUT_MS,
            )
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code == ErrorCode.NONE:
            deletion.low_watermark = answer.low_watermark
            deletion.incarnation = self.incarnation
            deletion.ended_s = self.run.now_s
