"""IncrementalAlterConfigs and AlterConfigs, for every resource whose configuration is stored in the metadata."""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeVar

from cordwood.metadata.image import BROKER_DEFAULT, ConfigResource, MetadataImage, ResourceType
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_configs as legacy
from cordwood.wire.messages import incremental_alter_configs as incremental
from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.schema import MetadataRecord

from .decision import ConfigSchema
from .partition_change import MIN_INSYNC_REPLICAS, is_elr_enabled, partitions_of


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


R = TypeVar("R", legacy.AlterConfigsResource, incremental.AlterConfigsResource)

# Changes of one resource: None removes a key.
Changes = Mapping[str, str | None]


def incremental_alter_configs(
    image: MetadataImage, request: incremental.IncrementalAlterConfigsRequest, schema: ConfigSchema
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    """Each resource succeeds or fails alone, as a whole."""
    records: list[MetadataRecord] = []
    response = incremental.IncrementalAlterConfigsResponse(responses=[])
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for asked in _once(request.resources):
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        result = incremental.AlterConfigsResourceResponse(
            resource_type=resource.type, resource_name=resource.name, error_message=None
        )
        try:
            _check_unique(counts[resource], [config.name for config in asked.configs])
            nulls = [
                config.name
                for config in asked.configs
                if config.value is None and config.config_operation != Operation.DELETE
            ]
            _check_no_nulls(nulls)
            changes = {config.name: _altered(image, schema, resource, config) for config in asked.configs}
            records += config_records(image, schema, resource, changes)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.error, str(refusal)
        response.responses.append(result)
    return Decision(response, [] if request.validate_only else records)


def alter_configs(
    image: MetadataImage, request: legacy.AlterConfigsRequest, schema: ConfigSchema
) -> Decision[legacy.AlterConfigsResponse]:
    """Replaces the whole configuration of each resource: keys that are not named are removed."""
    records: list[MetadataRecord] = []
    response = legacy.AlterConfigsResponse(responses=[])
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for asked in _once(request.resources):
        resource = ConfigResource(asked.resource_type, asked.resource_name)
        result = legacy.AlterConfigsResourceResponse(
            resource_type=resource.type, resource_name=resource.name, error_message=None
        )
        try:
            _check_unique(counts[resource], [config.name for config in asked.configs])
            _check_no_nulls([config.name for config in asked.configs if config.value is None])
            changes: dict[str, str | None] = {config.name: config.value for config in asked.configs}
            changes |= {name: None for name in image.config(resource) if name not in changes}
            records += config_records(image, schema, resource, changes)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.error, str(refusal)
        response.responses.append(result)
    return Decision(response, [] if request.validate_only else records)


def config_records(
    image: MetadataImage, schema: ConfigSchema, resource: ConfigResource, changes: Changes, *, is_new: bool = False
) -> list[MetadataRecord]:
    """The records that make the changes, checked; `is_new` is for a topic that is just being created."""
    before = image.config(resource)
    records: list[MetadataRecord] = []
    after = dict(before)
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = value
        # A broker's is written even if it is unchanged: that makes it reload its key files (KAFKA-14136).
        if value != before.get(name) or resource.type == ResourceType.BROKER:
            records.append(
                ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
            )
    if is_elr_enabled(image) and MIN_INSYNC_REPLICAS in changes:
        _check_min_isr(resource, changes[MIN_INSYNC_REPLICAS])
    error = schema.check(resource, after)
    if error is not None:
        raise Refusal(error.error, str(error))
    if not is_new:
        _check_exists(image, resource)
    if is_elr_enabled(image) and any(
        isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS for record in records
    ):
        # The eligible replicas were by the old minimum.
        name = resource.name if resource.type == ResourceType.TOPIC else ""
        records += [ClearElrRecord(topic_name=name), *_kept_eligible(image, name)]
    return records


def _kept_eligible(image: MetadataImage, name: str) -> list[MetadataRecord]:
    """Restores the eligible replicas of partitions without an in-sync replica, in one topic or in all. Kafka does not:
    such a partition could never get a leader again without an unclean election. It is safe, because nothing can be
    committed there under any minimum."""
    return [
        PartitionChangeRecord(
            partition_id=partition_id,
            topic_id=topic.id,
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
        )
        for topic, partition_id, partition in partitions_of(image)
        if name in ("", topic.name) and not partition.isr and (partition.elr or partition.last_known_elr)
    ]


def _check_min_isr(resource: ConfigResource, value: str | None) -> None:
    """Eligible leader replicas need one minimum for all brokers (KIP-966)."""
    if resource.type != ResourceType.BROKER:
        return
    if resource != BROKER_DEFAULT:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if value is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name:
        if not resource.name.lstrip("-").isdigit():
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Invalid broker name {resource.name}")
        if int(resource.name) not in image.brokers and int(resource.name) not in image.controllers:
            raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {resource.name} found.")


def _altered(
    image: MetadataImage, schema: ConfigSchema, resource: ConfigResource, config: incremental.AlterableConfig
) -> str | None:
    """The key's new value; None to remove it."""
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Unknown config operation {config.config_operation} for key {config.name}"
        ) from None
    if operation is Operation.SET or operation is Operation.DELETE:
        return config.value if operation is Operation.SET else None
    if not schema.is_list(resource.type, config.name):
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    current = image.config(resource).get(config.name)
    current = schema.default(resource.type, config.name) if current is None else current
    parts = [part for part in (current or "").split(",") if part]
    for part in (config.value or "").split(","):
        if operation is Operation.APPEND and part not in parts:
            parts.append(part)
        elif operation is Operation.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _check_unique(count: int, names: list[str]) -> None:
    if count > 1:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len(set(names)) < len(names):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_no_nulls(names: list[str]) -> None:
    if names:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(names)}")


def _once(resources: list[R]) -> list[R]:
    return list({(resource.resource_type, resource.resource_name): resource for resource in resources}.values())
