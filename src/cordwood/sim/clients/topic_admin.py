"""A client that creates, grows, configures and deletes its own topics."""

from collections.abc import Callable
from functools import partial
from typing import Any

from cordwood.runtime.network import NetworkError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.schema import Request

from .client import Client, Over, Run

_TOPICS = 3
_CONFIG = "max.message.bytes"
_TOPIC = 2
_SET = 0
_MAX_PAUSE_S = 1.0
_NONE = "not there"


class TopicAdmin(Client):
    """The desired state of a topic: its partitions, or its absence, and one configuration."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self._settings = run.history.settings
        self._names = [f"passing-{number}" for number in range(_TOPICS)]

    async def work(self) -> None:
        try:
            while True:
                await self.pause(_MAX_PAUSE_S)
                number = self.source.randrange(_TOPICS)
                action = self.source.choice((self._create, self._grow, self._configure, self._delete))
                try:
                    await action(self._names[number])
                except NetworkError:
                    # An unanswered request may take effect at any time: the state of this topic is unknown from here
                    # on.
                    self._settings.forget(self._names[number])
                    self._settings.forget(_config_of(self._names[number]))
                    self._names[number] += "+"
        except Over:
            return

    async def _create(self, name: str) -> None:
        count = self.source.randint(1, 3)
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        request = CreateTopicsRequest(topics=[topic])
        if await self._set(name, str(count), request, lambda response: response.topics[0].error_code):
            self._settings.forget(_config_of(name))

    async def _grow(self, name: str) -> None:
        count = self.source.randint(2, 4)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=1_000
        )
        await self._set(name, str(count), request, lambda response: response.results[0].error_code)

    async def _delete(self, name: str) -> None:
        version = self.any_version(DeleteTopicsRequest())
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=1_000)
        if version < 6:
            request.topics = []
        if await self._set(name, _NONE, request, lambda response: response.responses[0].error_code, version):
            self._settings.forget(_config_of(name))

    async def _configure(self, name: str) -> None:
        value = str(self.source.randint(1_000_000, 2_000_000))
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=_TOPIC,
                    resource_name=name,
                    configs=[AlterableConfig(name=_CONFIG, config_operation=_SET, value=value)],
                )
            ]
        )
        await self._set(_config_of(name), value, request, lambda response: response.responses[0].error_code)

    async def _set(
        self,
        name: str,
        value: str,
        request: Request[Any],
        error_of: Callable[[Any], int],
        version: int | None = None,
    ) -> bool:
        error = error_of(await self.ask(request, version))
        if error == ErrorCode.NONE:
            self._settings.done(name, value)
        elif error not in _NOTHING_CHANGED:
            raise NetworkError(f"error {error}: it may happen or not")
        return error == ErrorCode.NONE

    async def look(self) -> None:
        """Records the final state."""
        found = self.run.history.found_settings
        metadata = await self.ask_until_answered(MetadataRequest(topics=None), MetadataRequest.stable_versions.high)
        partitions = {topic.name: len(topic.partitions) for topic in metadata.topics}
        for name in [name for name in self._settings.known if not name.startswith(_CONFIG)]:
            found[name] = str(partitions[name]) if name in partitions else _NONE
            if name in partitions:
                request = DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=[_CONFIG])
                    ]
                )
                response = await self.ask_until_answered(request)
                found[_config_of(name)] = response.results[0].configs[0].value or ""


_NOTHING_CHANGED = {
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PARTITIONS,
}

_config_of = partial("{}.{}".format, _CONFIG)
