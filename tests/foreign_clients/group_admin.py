"""Group administration with each library."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import cordwood
from tests.foreign_clients.aiokafka_client import connection_settings as aiokafka_settings
from tests.foreign_clients.cordwood_client import connection_settings as cordwood_settings
from tests.foreign_clients.cordwood_client import refusals
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, Refused
from tests.foreign_clients.kafka_python import OffsetAndMetadata, errors
from tests.foreign_clients.kafka_python_client import KafkaPythonPartition, admin_client
from tests.foreign_clients.librdkafka_client import connection_settings as librdkafka_settings
from tests.foreign_clients.member_journal import Place


@dataclass(frozen=True, slots=True)
class GroupDescription:
    # In one spelling: "stable", "empty", "preparingrebalance", …
    state: str
    # "consumer" or "classic"; None if the library does not report it.
    type: str | None
    # None where the library does not decode them.
    assignments: list[set[Place]]
    instances: set[str | None]


class GroupViewer(Protocol):
    name: str

    def __init__(self, address: Address) -> None: ...

    def groups(self) -> dict[str, str]:
        """Each group's name and state, the latter as in a description."""
        ...

    def describe(self, group: str) -> GroupDescription: ...

    def offsets(self, group: str) -> dict[Place, tuple[int, str]]:
        """Committed offset and its metadata."""
        ...

    def close(self) -> None: ...


class GroupAdmin(GroupViewer, Protocol):
    def set_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...

    def delete(self, group: str) -> None: ...


class LibrdkafkaGroups:
    name = "librdkafka"

    def __init__(self, address: Address) -> None:
        self._admin = AdminClient(librdkafka_settings(address))

    def groups(self) -> dict[str, str]:
        listed = self._done(self._admin.list_consumer_groups())
        assert listed.errors == []
        return {group.group_id: _spelled(group.state.name) for group in listed.valid}

    def describe(self, group: str) -> GroupDescription:
        described = self._done(self._admin.describe_consumer_groups([group])[group])
        return GroupDescription(
            _spelled(described.state.name),
            _spelled(described.type.name),
            [
                {Place(place.topic, place.partition) for place in member.assignment.topic_partitions}
                for member in described.members
            ],
            {member.group_instance_id for member in described.members},
        )

    def offsets(self, group: str) -> dict[Place, tuple[int, str]]:
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        answer = self._done(asked[group])
        return {
            Place(place.topic, place.partition): (place.offset, _word(place.metadata))
            for place in answer.topic_partitions
            if place.offset >= 0
        }

    def set_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        answer = self._done(
            self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group]
        )
        for place in answer.topic_partitions:
            if place.error is not None:
                raise Refused(place.error.code(), place.error.str())

    def delete(self, group: str) -> None:
        self._done(self._admin.delete_consumer_groups([group])[group])

    def close(self) -> None:
        """Its handle ends with the last reference."""

    @staticmethod
    def _done(future: Any) -> Any:
        try:
            return future.result(timeout=PATIENCE_S)
        except KafkaException as error:
            raise Refused(error.args[0].code(), error.args[0].str()) from error


class KafkaPythonGroups:
    name = "kafka-python"

    def __init__(self, address: Address) -> None:
        self._admin = admin_client(address)

    def groups(self) -> dict[str, str]:
        return {group["group_id"]: _spelled(group["group_state"]) for group in self._asked("list_groups")}

    def describe(self, group: str) -> GroupDescription:
        described = self._asked("describe_groups", [group])[group]
        return GroupDescription(
            _spelled(described["group_state"]),
            None,
            [
                {
                    Place(topic, partition)
                    for topic, partitions in (member["member_assignment"] or {"assigned_partitions": []})[
                        "assigned_partitions"
                    ]
                    for partition in partitions
                }
                for member in described["members"]
            ],
            {member["group_instance_id"] for member in described["members"]},
        )

    def offsets(self, group: str) -> dict[Place, tuple[int, str]]:
        answer = self._asked("list_group_offsets", group)[group]
        return {Place(*place): (found.offset, _word(found.metadata)) for place, found in answer.items()}

    def set_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {KafkaPythonPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        for error in self._asked("alter_group_offsets", group, wanted).values():
            if error.errno:
                raise Refused(error.errno)

    def delete(self, group: str) -> None:
        outcome = self._asked("delete_groups", [group])[group]
        if outcome != "OK":
            # The name of an error.
            raise Refused(getattr(errors, outcome).errno)

    def close(self) -> None:
        self._admin.close()

    def _asked(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._admin, method)(*arguments)
        except errors.KafkaError as error:
            raise Refused(error.errno, str(error)) from error


class AiokafkaGroups:
    """It cannot change anything about groups."""

    name = "aiokafka"

    def __init__(self, address: Address) -> None:
        self._loop = asyncio.new_event_loop()
        self._admin = self._loop.run_until_complete(self._opened(address))

    def groups(self) -> dict[str, str]:
        """It does not report their states."""
        listed = self._loop.run_until_complete(self._admin.list_consumer_groups())
        return dict.fromkeys((name for name, _protocol in listed), "")

    def describe(self, group: str) -> GroupDescription:
        (answer,) = self._loop.run_until_complete(self._admin.describe_consumer_groups([group]))
        ((code, _group, state, _protocol_type, _protocol, members, *_),) = answer.groups
        if code:
            raise Refused(code)
        return GroupDescription(_spelled(state), None, [set() for _ in members], {None})

    def offsets(self, group: str) -> dict[Place, tuple[int, str]]:
        answer = self._loop.run_until_complete(self._admin.list_consumer_group_offsets(group))
        return {Place(*place): (found.offset, _word(found.metadata)) for place, found in answer.items()}

    def close(self) -> None:
        self._loop.run_until_complete(self._admin.close())
        self._loop.close()

    async def _opened(self, address: Address) -> Any:
        admin = AIOKafkaAdminClient(**aiokafka_settings(address))
        await admin.start()
        return admin


class CordwoodGroups:
    name = "cordwood"

    def __init__(self, address: Address) -> None:
        self._admin = cordwood.Admin(**cordwood_settings(address))

    def groups(self) -> dict[str, str]:
        return {group.id: _spelled(group.state or "") for group in self._admin.list_consumer_groups()}

    def describe(self, group: str) -> GroupDescription:
        with refusals():
            described = self._admin.describe_consumer_groups([group])[group]
        return GroupDescription(
            _spelled(described.state),
            described.kind.lower(),
            [{Place(*place) for place in member.assignment or ()} for member in described.members],
            {member.instance_id for member in described.members},
        )

    def offsets(self, group: str) -> dict[Place, tuple[int, str]]:
        with refusals():
            found = self._admin.list_consumer_group_offsets([group])[group]
        return {Place(*place): (committed.offset, _word(committed.metadata)) for place, committed in found.items()}

    def set_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {
            cordwood.TopicPartition(*place): cordwood.OffsetAndMetadata(offset) for place, offset in offsets.items()
        }
        with refusals():
            self._admin.alter_consumer_group_offsets(group, wanted)

    def delete(self, group: str) -> None:
        with refusals():
            self._admin.delete_consumer_groups([group])

    def close(self) -> None:
        self._admin.close()


def _spelled(word: str) -> str:
    return word.replace("_", "").replace("REBALANCING", "REBALANCE").lower()


def _word(metadata: str | None) -> str:
    """confluent-kafka commits metadata with a trailing zero byte."""
    return (metadata or "").rstrip("\0")
