"""Converts an image to the records of a snapshot, in Kafka's order."""

from collections.abc import Iterator, Mapping

from cordwood.wire.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from cordwood.wire.messages.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from cordwood.wire.messages.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from cordwood.wire.messages.metadata_records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

from .image import (
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    Broker,
    ControllerNode,
    MetadataImage,
    PartitionRegistration,
    QuotaEntity,
    Topic,
)
from .versions import CONTROLLER_REGISTRATION_LEVEL


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Replayed onto an empty image they give this one."""
    # First, since it determines how the rest is read.
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.metadata_version)
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield broker_record(broker)
    if image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
        for controller in image.controllers.values():
            yield controller_record(controller)
    for topic in image.topics:
        yield from topic_records(topic)
    for resource, config in image.configs.items():
        for name, value in config.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    for entity, quotas in image.client_quotas.items():
        yield from _quota_records(entity, quotas)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for acl_id, acl in image.acls.items():
        yield AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
    for user, credential in image.scram.items():
        yield UserScramCredentialRecord(
            name=user.name,
            mechanism=user.mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token_id, token in image.delegation_tokens.items():
        yield DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_ms,
            max_timestamp=token.max_ms,
            expiration_timestamp=token.expiration_ms,
            token_id=token_id,
        )


def topic_records(topic: Topic) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for partition_id in sorted(topic.partitions):
        yield partition_record(topic.id, partition_id, topic.partitions[partition_id])


def partition_record(topic_id: Uuid, partition_id: int, partition: PartitionRegistration) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        # Metadata from before Kafka 3.7 has no such field.
        directories=list(partition.directories) if set(partition.directories) != {MIGRATING_DIRECTORY} else [],
        # Tagged: left out where there are none.
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def broker_record(broker: Broker) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def controller_record(controller: ControllerNode) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in controller.features.items()
        ],
    )


def _quota_records(entity: QuotaEntity, quotas: Mapping[str, float]) -> Iterator[ClientQuotaRecord]:
    for key, value in quotas.items():
        yield ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], key=key, value=value
        )
