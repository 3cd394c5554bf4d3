"""Topics and their partitions."""

from collections.abc import Collection, Mapping, Sequence

from cordwood.client.admin import partitions as partition_functions
from cordwood.client.admin import topic_descriptions
from cordwood.client.admin import topics as topic_functions
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.partition_leaders import ask_each_leader
from cordwood.client.admin.partitions import ElectionType, PartitionReassignment
from cordwood.client.admin.results import values
from cordwood.client.admin.topic_descriptions import TopicDescription
from cordwood.client.admin.topics import CreatedTopic, NewPartitions, NewTopic
from cordwood.client.arguments import (
    Time,
    by_name,
    by_partition,
    names_of,
    number_of,
    numbers_of,
    partitions_of,
    spec_of,
    values_of,
)
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.client.offsets import ListedOffset, asking_for_offsets
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid


class TopicCalls(Connected):
    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Creates topics; they may not have leaders yet, see `until_topics_led`."""
        new = values_of(topics, NewTopic, "topics")
        return values(await topic_functions.create_topics(await self._connected(), new, validate_only=validate_only))

    async def delete_topics(self, topics: Sequence[str | Uuid]) -> None:
        """Deletes topics, by name or id, with all their records."""
        chosen = values_of(topics, (str, Uuid), "topics")
        values(await topic_functions.delete_topics(await self._connected(), chosen))

    async def list_topics(self, *, internal: bool = False) -> dict[str, Topic]:
        """Returns all topics by name; with `internal`, also the brokers' own."""
        topics = await (await self._connected()).all_topics()
        return {name: topic for name, topic in topics.items() if internal or not topic.is_internal}

    async def describe_topics(
        self, names: Collection[str] | None = None, *, partitions_per_page: int = 2_000
    ) -> dict[str, TopicDescription]:
        """Returns topics with their partitions, page by page if brokers support that (Kafka 3.8+); the topics of
        `list_topics` without `names`."""
        chosen = names_of(names, "topics") if names is not None else list(await self.list_topics())
        described = await topic_descriptions.describe_topics(
            await self._connected(), chosen, partitions_per_page=partitions_per_page
        )
        if names is None:
            # Deleted between the two requests.
            described = {name: told for name, told in described.items() if not _is_unknown(told)}
        return values(described)

    async def describe_topics_by_id(self, ids: Collection[Uuid]) -> dict[Uuid, TopicDescription]:
        """Like `describe_topics`, by topic ids."""
        chosen = values_of(ids, Uuid, "ids")
        return values(await topic_descriptions.describe_topics_by_id(await self._connected(), chosen))

    async def create_partitions(
        self, topics: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Grows each topic to this total number of partitions."""
        wanted = {
            name: grown if isinstance(grown, NewPartitions) else number_of(grown, f"the number of partitions of {name}")
            for name, grown in by_name(topics, "topics", "numbers of partitions").items()
        }
        client = await self._connected()
        values(await topic_functions.create_partitions(client, wanted, validate_only=validate_only))

    async def until_topics_led(self, names: Collection[str], partitions: int = 0) -> None:
        """Waits until every partition of these topics has a leader, and there are at least this many partitions."""
        await topic_functions.until_led(await self._connected(), names_of(names, "topics"), partitions)

    async def until_topics_gone(self, names: Collection[str]) -> None:
        """Waits until brokers know that these topics are deleted."""
        await topic_functions.until_gone(await self._connected(), names_of(names, "topics"))

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, Time], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Returns the offset of an `OffsetSpec`, or of the first record at or after a time in ms; -1 if there is
        none."""
        specs = by_partition(wanted, spec_of, "offsets to list", "an OffsetSpec or a time")
        client = await self._connected()
        return values(await ask_each_leader(client, specs, asking_for_offsets(client, read_committed=read_committed)))

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets (-1: all), and returns each partition's new first offset."""
        offsets = by_partition(
            before, lambda partition, offset: number_of(offset, f"the offset of {partition}"), "offsets", "an offset"
        )
        return values(await partition_functions.delete_records(await self._connected(), offsets))

    async def elect_leaders(
        self,
        partitions: Collection[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
    ) -> list[TopicPartition]:
        """Elects leaders, of all partitions without `partitions`, and returns those for which an election was
        needed."""
        chosen = None if partitions is None else partitions_of(partitions)
        outcomes = await partition_functions.elect_leaders(await self._connected(), election, chosen)
        elected = [partition for partition, outcome in outcomes.items() if outcome is None]
        # The preferred replica leads already, as requested.
        values({partition: outcome for partition, outcome in outcomes.items() if not _is_not_needed(outcome)})
        return elected

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Starts to move partitions to these brokers; None cancels a move in progress."""
        brokers = by_partition(targets, _brokers, "targets", "a list of brokers")
        client = await self._connected()
        values(
            await partition_functions.alter_partition_reassignments(
                client, brokers, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Returns the moves in progress, of all partitions or of these."""
        chosen = None if partitions is None else partitions_of(partitions)
        return await partition_functions.list_partition_reassignments(await self._connected(), chosen)


def _is_not_needed(outcome: BrokerError | None) -> bool:
    return outcome is not None and outcome.code == ErrorCode.ELECTION_NOT_NEEDED


def _is_unknown(told: TopicDescription | BrokerError) -> bool:
    return isinstance(told, BrokerError) and told.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _brokers(partition: TopicPartition, given: Sequence[int] | None) -> list[int] | None:
    return None if given is None else numbers_of(given, f"the brokers of {partition}")
