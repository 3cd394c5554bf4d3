"""AssignReplicasToDirs: a broker reports the log directory of each of its replicas (KIP-858).

Leadership depends on it: a replica in a failed directory cannot lead.
"""

from cordwood.metadata.image import Broker, MetadataImage, PartitionRegistration
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

from .brokers import check_broker_epoch
from .decision import ControllerDefaults
from .partition_change import removal_change


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, defaults: ControllerDefaults
) -> Decision[AssignReplicasToDirsResponse]:
    """Each partition has its own result; one whose directory is unchanged needs no record. A directory may have failed
    between a replica's move into it and the report of that: the replica leaves the ISR then."""
    broker_id = request.broker_id
    try:
        broker = check_broker_epoch(image, broker_id, request.broker_epoch)
    except Refusal as refusal:
        return Decision(AssignReplicasToDirsResponse(error_code=refusal.error))
    records: list[MetadataRecord] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        told = ResponseDirectoryData(id=directory.id)
        response.directories.append(told)
        for topic in directory.topics:
            answers = ResponseTopicData(topic_id=topic.topic_id)
            told.topics.append(answers)
            for asked in topic.partitions:
                answer = ResponsePartitionData(partition_index=asked.partition_index)
                try:
                    records += _assign(image, defaults, broker, topic.topic_id, asked.partition_index, directory.id)
                except Refusal as refusal:
                    answer.error_code = refusal.error
                answers.partitions.append(answer)
    return Decision(response, records)


def _assign(
    image: MetadataImage,
    defaults: ControllerDefaults,
    broker: Broker,
    topic_id: Uuid,
    partition_id: int,
    directory: Uuid,
) -> list[MetadataRecord]:
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    if broker.id not in partition.replicas:
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker.id} has no replica of it")
    records: list[MetadataRecord] = []
    if partition.directory_of(broker.id) != directory:
        directories = [_directory(partition, replica, broker.id, directory) for replica in partition.replicas]
        records.append(PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id, directories=directories))
    if not broker.has_online_directory(directory):
        removal = removal_change(image, defaults, topic, partition_id, broker.id)
        records += [removal] if removal is not None else []
    return records


def _directory(partition: PartitionRegistration, replica: int, broker_id: int, directory: Uuid) -> Uuid:
    return directory if replica == broker_id else partition.directory_of(replica)
