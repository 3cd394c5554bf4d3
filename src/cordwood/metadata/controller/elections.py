"""ElectLeaders: preferred and unclean elections, on request and periodically for all partitions."""

from collections.abc import Callable
from itertools import islice

from cordwood.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from cordwood.wire.schema import MetadataRecord

from .decision import ControllerDefaults
from .partition_change import Election, change_partition, online_election, partitions_of

_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, defaults: ControllerDefaults
) -> Decision[ElectLeadersResponse]:
    """A null list means every partition; then the response omits those that need no election."""
    election = _TYPES.get(request.election_type)
    if election is None:
        return Decision(
            refuse_all(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        )
    is_all = request.topic_partitions is None
    if request.topic_partitions is None:
        asked = [(topic.name, sorted(topic.partitions)) for topic in image.topics]
    else:
        asked = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    records: list[MetadataRecord] = []
    response = ElectLeadersResponse(replica_election_results=[])
    for name, partitions in asked:
        results = ReplicaElectionResult(topic=name, partition_result=[])
        for partition_id in partitions:
            result = PartitionResult(partition_id=partition_id, error_code=ErrorCode.NONE, error_message=None)
            try:
                records.append(_elect(image, defaults, name, partition_id, election))
            except Refusal as refusal:
                if is_all and refusal.error is ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                result.error_code, result.error_message = refusal.error, str(refusal)
            results.partition_result.append(result)
        response.replica_election_results.append(results)
    return Decision(response, records)


def refuse_all(request: ElectLeadersRequest, error: ErrorCode, message: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ],
    )


def _elect(
    image: MetadataImage, defaults: ControllerDefaults, name: str, partition_id: int, election: Election
) -> MetadataRecord:
    topic = image.topics.get(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition_id}")
    is_preferred = election is Election.PREFERRED
    wanted = partition.leader == partition.preferred_replica if is_preferred else partition.leader != NO_LEADER
    if wanted:
        raise Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = change_partition(image, defaults, topic, partition_id, election=election)
    if record is not None:
        return record
    if is_preferred:
        raise Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    raise Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


# From time to time


def elect_preferred_leaders(image: MetadataImage, defaults: ControllerDefaults, limit: int) -> list[MetadataRecord]:
    """Gives up to `limit` partitions their preferred leaders back (auto.leader.rebalance.enable)."""

    def has_lost_it(partition: PartitionRegistration) -> bool:
        preferred = partition.preferred_replica
        return partition.leader != preferred and preferred in partition.isr and image.is_active(preferred)

    return _elect_where(image, defaults, limit, has_lost_it, Election.PREFERRED)


def elect_unclean_leaders(image: MetadataImage, defaults: ControllerDefaults, limit: int) -> list[MetadataRecord]:
    """Elects leaders that may lack records for up to `limit` partitions without a leader, if their topics allow it."""
    return _elect_where(image, defaults, limit, lambda partition: partition.leader == NO_LEADER, Election.UNCLEAN)


def _elect_where(
    image: MetadataImage,
    defaults: ControllerDefaults,
    limit: int,
    is_wanted: Callable[[PartitionRegistration], bool],
    election: Election,
) -> list[MetadataRecord]:
    changes = (
        change_partition(image, defaults, topic, partition_id, election=election)
        for topic, partition_id, partition in partitions_of(image)
        if is_wanted(partition)
        and (election is not Election.UNCLEAN or online_election(image, defaults, topic) is Election.UNCLEAN)
    )
    return list(islice((change for change in changes if change is not None), limit))
