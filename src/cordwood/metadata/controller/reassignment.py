"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455): moves partitions to other brokers.

A reassignment begins with a change that adds the new replicas. It ends with one that removes the others, as soon as
every replica of the plan is in the ISR: `partition_change` sees to that with every change of the ISR.

Differences from Kafka where a running plan is replaced: the replicas to add and remove are computed again from the
state before the first plan. A replica that only the old plan had is dropped at once, unless no other replica is in sync
and it was in sync, is eligible (KIP-966) or led last; and one that the old plan was about to remove stays if the new
one has it. So every plan can be completed, and cancelling the last one brings back the replicas from before the first.
"""

from collections.abc import Sequence

from cordwood.metadata.image import MetadataImage, PartitionRegistration, Topic
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from cordwood.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.schema import MetadataRecord

from .assignment import check_manual_assignment
from .decision import ControllerDefaults
from .partition_change import Assignment, Election, change_partition, online_election


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, defaults: ControllerDefaults
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Each partition succeeds or fails alone. A plan without replicas cancels the current one."""
    records: list[MetadataRecord] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for asked_topic in request.topics:
        answers = ReassignableTopicResponse(name=asked_topic.name)
        response.responses.append(answers)
        for asked in asked_topic.partitions:
            answer = ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
            try:
                topic, partition = _find(image, asked_topic.name, asked.partition_index)
                if asked.replicas is None:
                    record = _cancel(image, defaults, topic, asked.partition_index)
                else:
                    if not request.allow_replication_factor_change:
                        _check_replication_factor(partition, asked.replicas)
                    record = _reassign(image, defaults, topic, asked.partition_index, asked.replicas)
                records += [] if record is None else [record]
            except Refusal as refusal:
                answer.error_code, answer.error_message = refusal.error, str(refusal)
            answers.partitions.append(answer)
    return Decision(response, records)


def _find(image: MetadataImage, name: str, partition_id: int) -> tuple[Topic, PartitionRegistration]:
    topic = image.topics.get(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{partition_id}.")
    return topic, partition


def _check_replication_factor(partition: PartitionRegistration, replicas: Sequence[int]) -> None:
    planned = len(partition.replicas) - len(partition.removing_replicas)
    if planned != len(replicas):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {planned} to {len(replicas)}",
        )


def _reassign(
    image: MetadataImage, defaults: ControllerDefaults, topic: Topic, partition_id: int, target: Sequence[int]
) -> PartitionChangeRecord | None:
    check_manual_assignment(image, target, None)
    before = topic.partitions[partition_id]
    unwanted = {replica for replica in before.adding_replicas if replica not in target}
    isr = tuple(replica for replica in before.isr if replica not in unwanted)
    if not isr:
        # Perhaps no other replica has all the data: they are removed once another one is in sync.
        unwanted -= {*before.isr, *before.elr, *before.last_known_elr}
        isr = before.isr
    removing = tuple(sorted({*before.replicas} - {*target} - unwanted))
    adding = tuple(sorted({*target} - _original(before)))
    return change_partition(
        image,
        defaults,
        topic,
        partition_id,
        isr=isr,
        assignment=Assignment((*target, *removing), adding, removing),
    )


def _original(partition: PartitionRegistration) -> set[int]:
    """The replicas from before the reassignment, if one is running."""
    return {*partition.replicas} - {*partition.adding_replicas}


def _cancel(
    image: MetadataImage, defaults: ControllerDefaults, topic: Topic, partition_id: int
) -> PartitionChangeRecord | None:
    before = topic.partitions[partition_id]
    if not before.is_reassigning:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    original = _original(before)
    replicas = tuple(replica for replica in before.replicas if replica in original)
    isr = tuple(replica for replica in before.isr if replica in original)
    election = online_election(image, defaults, topic)
    is_lossy = not isr and (bool(before.isr) or not original.intersection(before.elr))
    # All eligible replicas may have lost data: then the last leader has the most.
    may_be_lossy = is_lossy or not (isr or original.issuperset(before.last_known_elr))
    if may_be_lossy and election is not Election.UNCLEAN:
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{partition_id} because it would require an "
            "unclean leader election.",
        )
    if is_lossy:
        isr = replicas[:1]
    return change_partition(
        image,
        defaults,
        topic,
        partition_id,
        isr=isr,
        election=election,
        assignment=Assignment(replicas),
    )


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """A null list means all topics. Partitions that are not being reassigned are omitted."""
    response = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is None:
        asked = [(topic, sorted(topic.partitions)) for topic in image.topics]
    else:
        named = [(image.topics.get(wanted.name), wanted.partition_indexes) for wanted in request.topics]
        asked = [(topic, list(indexes)) for topic, indexes in named if topic is not None]
    for topic, indexes in asked:
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response
