"""CreateTopics, DeleteTopics, CreatePartitions."""

import re
from collections import Counter

from cordwood.metadata.image import (
    Config,
    MetadataImage,
    PartitionRegistration,
    Topic,
    has_collision_chars,
    topic_resource,
    unify_collision_chars,
)
from cordwood.metadata.image_records import partition_record
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from cordwood.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from cordwood.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

from .assignment import check_manual_assignment, manual_partition, placed_partition
from .configs import config_records
from .decision import MAX_PARTITIONS_PER_REQUEST, ConfigSchema, ControllerDefaults
from .placement import place_replicas

METADATA_TOPIC = "__cluster_metadata"
MAX_NAME_LENGTH = 249

_NO_ID: Uuid = bytes(16)
_DEFAULT = -1
_NAME = re.compile(r"[a-zA-Z0-9._-]+")

_NO_SUCH_PARTITION = "This server does not host this topic-partition."
_NO_SUCH_TOPIC_ID = "This server does not host this topic ID."


# Creating topics


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    random: Random,
    defaults: ControllerDefaults,
    schema: ConfigSchema,
) -> Decision[CreateTopicsResponse]:
    """Each topic succeeds or fails on its own; all that succeed are created in one batch."""
    records: list[MetadataRecord] = []
    response = CreateTopicsResponse(topics=[])
    counts = Counter(topic.name for topic in request.topics)
    is_too_large = _requested_partitions(request, defaults) > MAX_PARTITIONS_PER_REQUEST
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if is_too_large:
                raise _too_many_partitions()
            if counts[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            created, result = _create_topic(image, topic, random, defaults, schema)
            records += created
        except Refusal as refusal:
            result = CreatableTopicResult(name=topic.name, error_code=refusal.error, error_message=str(refusal))
        response.topics.append(result)
    return Decision(response, [] if request.validate_only else records)


def _too_many_partitions() -> Refusal:
    return Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def check_topic_name(name: str) -> None:
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def _requested_partitions(request: CreateTopicsRequest, defaults: ControllerDefaults) -> int:
    total = 0
    for topic in request.topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += defaults.num_partitions if topic.num_partitions == _DEFAULT else max(0, topic.num_partitions)
    return total


def _create_topic(
    image: MetadataImage,
    topic: CreatableTopic,
    random: Random,
    defaults: ControllerDefaults,
    schema: ConfigSchema,
) -> tuple[list[MetadataRecord], CreatableTopicResult]:
    _check_new_name(image, topic.name)
    config = _creation_config(topic)
    resource = topic_resource(topic.name)
    new_config = config_records(image, schema, resource, dict(config), is_new=True)
    if topic.assignments:
        partitions = _manual_partitions(image, topic)
    else:
        partitions = _placed_partitions(image, topic, random, defaults)
    topic_id = new_uuid(random)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id), *new_config]
    records += [partition_record(topic_id, number, partition) for number, partition in enumerate(partitions)]
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=schema.describe_topic(config),
    )
    return records, result


def _check_new_name(image: MetadataImage, name: str) -> None:
    if name == METADATA_TOPIC:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in image.topics:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    check_topic_name(name)
    colliding = image.topics.colliding.get(unify_collision_chars(name)) if has_collision_chars(name) else None
    if colliding:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[0]}")


def _creation_config(topic: CreatableTopic) -> Config:
    config = {entry.name: entry.value for entry in topic.configs}
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    return {name: value for name, value in config.items() if value is not None}


def _manual_partitions(image: MetadataImage, topic: CreatableTopic) -> list[PartitionRegistration]:
    asked = "A manual partition assignment was specified, but"
    if topic.replication_factor != _DEFAULT:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{asked} replication factor was not set to -1.")
    if topic.num_partitions != _DEFAULT:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{asked} numPartitions was not set to -1.")
    partitions: dict[int, PartitionRegistration] = {}
    replication_factor = None
    for assignment in topic.assignments:
        partition_id = assignment.partition_index
        if partition_id in partitions:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition_id}",
            )
        check_manual_assignment(image, assignment.broker_ids, replication_factor)
        replication_factor = len(assignment.broker_ids)
        partitions[partition_id] = manual_partition(image, partition_id, assignment.broker_ids)
    if sorted(partitions) != list(range(len(partitions))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [partitions[partition_id] for partition_id in range(len(partitions))]


def _placed_partitions(
    image: MetadataImage, topic: CreatableTopic, random: Random, defaults: ControllerDefaults
) -> list[PartitionRegistration]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < _DEFAULT or factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < _DEFAULT or count == 0:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    factor = defaults.default_replication_factor if factor == _DEFAULT else factor
    count = defaults.num_partitions if count == _DEFAULT else count
    try:
        placed = place_replicas(image, random, count, factor)
    except Refusal as refusal:
        raise Refusal(refusal.error, f"Unable to replicate the partition {factor} time(s): {refusal}") from refusal
    return [placed_partition(image, replicas) for replicas in placed]


# Deleting topics


def delete_topics(image: MetadataImage, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """Deletes topics by name or by id, but not both; a topic that is listed twice is not deleted."""
    records: list[MetadataRecord] = []
    response = DeleteTopicsResponse(responses=[])
    asked = [DeletableTopicResult(name=name) for name in request.topic_names]
    asked += [DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in request.topics]
    counts = Counter((result.name, result.topic_id) for result in asked)
    named_too = _named_too(image, asked)
    answered = set()
    for result in asked:
        key = (result.name, result.topic_id)
        if key in answered or (result.name is None and result.topic_id in named_too):
            # One answer for all identical items.
            continue
        try:
            topic = _find_to_delete(image, result, is_duplicate=counts[key] > 1)
            result.name, result.topic_id = topic.name, topic.id
            if topic.id in named_too:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
                )
            records.append(RemoveTopicRecord(topic_id=topic.id))
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.error, str(refusal)
        if key != (None, _NO_ID):
            answered.add(key)
        response.responses.append(result)
    return Decision(response, records)


def _named_too(image: MetadataImage, asked: list[DeletableTopicResult]) -> set[Uuid]:
    """Topics that are meant by their name and by their id."""
    named = {image.topics.ids.get(result.name) for result in asked if result.name is not None}
    return {result.topic_id for result in asked if result.name is None and result.topic_id in named}


def _find_to_delete(image: MetadataImage, asked: DeletableTopicResult, *, is_duplicate: bool) -> Topic:
    name, topic_id = asked.name, asked.topic_id
    if name is None and topic_id == _NO_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != _NO_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if is_duplicate:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    if name is not None:
        topic = image.topics.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_SUCH_PARTITION)
    else:
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, _NO_SUCH_TOPIC_ID)
    return topic


# Adding partitions


def create_partitions(
    image: MetadataImage, request: CreatePartitionsRequest, random: Random
) -> Decision[CreatePartitionsResponse]:
    records: list[MetadataRecord] = []
    response = CreatePartitionsResponse(results=[])
    counts = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if counts[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _added_partitions(image, topic, random)
            if len(records) + len(added) > MAX_PARTITIONS_PER_REQUEST:
                raise _too_many_partitions()
            records += added
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.error, str(refusal) or None
        response.results.append(result)
    return Decision(response, [] if request.validate_only else records)


def _added_partitions(image: MetadataImage, request: CreatePartitionsTopic, random: Random) -> list[MetadataRecord]:
    topic = image.topics.get(request.name)
    if topic is None:
        # Kafka has no words for it here.
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    present = len(topic.partitions)
    if request.count == present:
        raise Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if request.count < present:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {request.count} would not be an increase.",
        )
    additional = request.count - present
    if additional > MAX_PARTITIONS_PER_REQUEST:
        raise _too_many_partitions()
    replication_factor = len(topic.partitions[0].replicas)
    if request.assignments is None:
        placed = place_replicas(image, random, additional, replication_factor)
        added = [placed_partition(image, replicas) for replicas in placed]
    else:
        if len(request.assignments) != additional:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} "
                "assignment(s) were specified.",
            )
        added = []
        for number, assignment in enumerate(request.assignments, present):
            check_manual_assignment(image, assignment.broker_ids, replication_factor)
            added.append(manual_partition(image, number, assignment.broker_ids))
    return [partition_record(topic.id, number, partition) for number, partition in enumerate(added, present)]
