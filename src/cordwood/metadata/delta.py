"""Changes by records: replayed one by one onto an image, they produce the next image and the difference.

delta = MetadataDelta(image)
for record in batch.records:
    delta.replay(record)
image = delta.apply(OffsetAndEpoch(batch.next_offset, batch.epoch), batch.timestamp_ms)
act_on(delta.topics.replica_changes(broker_id), delta.configs)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.access_control_entry_record import AccessControlEntryRecord
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.client_quota_record import ClientQuotaRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.delegation_token_record import DelegationTokenRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.messages.metadata_records.fence_broker_record import FenceBrokerRecord
from cordwood.wire.messages.metadata_records.no_op_record import NoOpRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from cordwood.wire.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from cordwood.wire.messages.metadata_records.register_controller_record import RegisterControllerRecord
from cordwood.wire.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from cordwood.wire.messages.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.messages.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from cordwood.wire.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from cordwood.wire.messages.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from cordwood.wire.messages.metadata_records.zk_migration_state_record import ZkMigrationStateRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

from .exceptions import InvalidMetadata
from .image import (
    Acl,
    Broker,
    ConfigResource,
    ControllerNode,
    DelegationToken,
    Endpoint,
    FeatureRange,
    MetadataImage,
    OffsetAndEpoch,
    QuotaEntity,
    ScramCredential,
    ScramUser,
    topic_resource,
)
from .topics_delta import TopicsDelta

K = TypeVar("K")
V = TypeVar("V")

_FENCE, _UNFENCE = 1, -1
_IN_CONTROLLED_SHUTDOWN = 1


class MetadataDelta:
    """The dicts have the values after the change; None for removed keys."""

    def __init__(self, image: MetadataImage) -> None:
        self.before = image
        self.topics = TopicsDelta(image.topics)
        self.brokers: dict[int, Broker | None] = {}
        self.controllers: dict[int, ControllerNode] = {}
        # Per resource only the keys that were named, also where the value stays the same.
        self.configs: dict[ConfigResource, dict[str, str | None]] = {}
        self.features: dict[str, int | None] = {}
        self.next_producer_id: int | None = None
        self.client_quotas: dict[QuotaEntity, dict[str, float | None]] = {}
        self.acls: dict[Uuid, Acl | None] = {}
        self.scram: dict[ScramUser, ScramCredential | None] = {}
        self.delegation_tokens: dict[str, DelegationToken | None] = {}

    def replay(self, record: MetadataRecord) -> None:
        """Raises `InvalidMetadata` if the record contradicts earlier ones."""
        _REPLAY[type(record)](self, record)

    def replay_all(self, records: list[MetadataRecord]) -> "MetadataDelta":
        for record in records:
            self.replay(record)
        return self

    def apply(self, covers: OffsetAndEpoch, timestamp_ms: int) -> MetadataImage:
        before = self.before
        return MetadataImage(
            covers,
            timestamp_ms,
            self.topics.apply(),
            _merged(before.brokers, self.brokers),
            {**before.controllers, **self.controllers} if self.controllers else before.controllers,
            self._merged_configs(),
            _merged(before.features, self.features),
            before.next_producer_id if self.next_producer_id is None else self.next_producer_id,
            _merged_maps(before.client_quotas, self.client_quotas),
            _merged(before.acls, self.acls),
            _merged(before.scram, self.scram),
            _merged(before.delegation_tokens, self.delegation_tokens),
        )

    def _merged_configs(self) -> Any:
        if not self.configs:
            return self.before.configs
        editor = self.before.configs.edit()
        for resource, changes in self.configs.items():
            merged = _merged(editor.get(resource) or {}, changes)
            if merged:
                editor[resource] = merged
            elif resource in editor:
                del editor[resource]
        return editor.finish()

    # Topics

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        resource = topic_resource(self.topics.remove(record))
        names = [*self.before.config(resource), *self.configs.get(resource, ())]
        if names:
            self.configs[resource] = dict.fromkeys(names)

    # Nodes

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = Broker(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in record.end_points),
            {
                feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
                for feature in record.features
            },
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
            record.is_migrating_zk_broker,
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.brokers[record.broker_id] = None

    def _fence(self, record: FenceBrokerRecord) -> None:
        self.brokers[record.id] = replace(self._broker(record.id, record.epoch), fenced=True)

    def _unfence(self, record: UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = replace(self._broker(record.id, record.epoch), fenced=False)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = replace(
            broker,
            fenced={_FENCE: True, _UNFENCE: False}.get(record.fenced, broker.fenced),
            in_controlled_shutdown=broker.in_controlled_shutdown
            or record.in_controlled_shutdown == _IN_CONTROLLED_SHUTDOWN,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )

    def _broker(self, broker_id: int, epoch: int) -> Broker:
        broker = self.brokers[broker_id] if broker_id in self.brokers else self.before.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
            raise InvalidMetadata(f"a record is about broker {broker_id} with epoch {epoch}, which is {known}")
        return broker

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerNode(
            record.controller_id,
            record.incarnation_id,
            tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in record.end_points),
            {
                feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
                for feature in record.features
            },
            record.zk_migration_ready,
        )

    # Configuration, features, producer ids, quotas

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.configs.setdefault(resource, {})[record.name] = record.value

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level or None

    def _set_producer_ids(self, record: ProducerIdsRecord) -> None:
        known = self.before.next_producer_id if self.next_producer_id is None else self.next_producer_id
        if record.next_producer_id < known:
            raise InvalidMetadata(f"producer ids go back from {known} to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        self.client_quotas.setdefault(entity, {})[record.key] = None if record.remove else record.value

    # Security

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self.acls[record.id] = None

    def _set_scram(self, record: UserScramCredentialRecord) -> None:
        self.scram[ScramUser(record.name, record.mechanism)] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram[ScramUser(record.name, record.mechanism)] = None

    def _set_token(self, record: DelegationTokenRecord) -> None:
        self.delegation_tokens[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens[record.token_id] = None


def _ignore(_delta: MetadataDelta, _record: MetadataRecord) -> None:
    """Ignores the log's heartbeats, the bounds of transactions (handled by the loader), and leftovers of ZooKeeper."""


_REPLAY: dict[type[MetadataRecord], Callable[[MetadataDelta, Any], None]] = {
    TopicRecord: lambda delta, record: delta.topics.create(record),
    PartitionRecord: lambda delta, record: delta.topics.set_partition(record),
    PartitionChangeRecord: lambda delta, record: delta.topics.change_partition(record),
    ClearElrRecord: lambda delta, record: delta.topics.clear_elr(record),
    RemoveTopicRecord: MetadataDelta._remove_topic,
    RegisterBrokerRecord: MetadataDelta._register_broker,
    UnregisterBrokerRecord: MetadataDelta._unregister_broker,
    FenceBrokerRecord: MetadataDelta._fence,
    UnfenceBrokerRecord: MetadataDelta._unfence,
    BrokerRegistrationChangeRecord: MetadataDelta._change_broker,
    RegisterControllerRecord: MetadataDelta._register_controller,
    ConfigRecord: MetadataDelta._set_config,
    FeatureLevelRecord: MetadataDelta._set_feature,
    ProducerIdsRecord: MetadataDelta._set_producer_ids,
    ClientQuotaRecord: MetadataDelta._set_quota,
    AccessControlEntryRecord: MetadataDelta._add_acl,
    RemoveAccessControlEntryRecord: MetadataDelta._remove_acl,
    UserScramCredentialRecord: MetadataDelta._set_scram,
    RemoveUserScramCredentialRecord: MetadataDelta._remove_scram,
    DelegationTokenRecord: MetadataDelta._set_token,
    RemoveDelegationTokenRecord: MetadataDelta._remove_token,
    NoOpRecord: _ignore,
    BeginTransactionRecord: _ignore,
    EndTransactionRecord: _ignore,
    AbortTransactionRecord: _ignore,
    ZkMigrationStateRecord: _ignore,
}


def _merged(before: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    if not changes:
        return before
    merged = dict(before)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _merged_maps(
    before: Mapping[K, Mapping[str, V]], changes: Mapping[K, Mapping[str, V | None]]
) -> Mapping[K, Mapping[str, V]]:
    if not changes:
        return before
    merged = dict(before)
    for key, inner in changes.items():
        values = _merged(merged.get(key, {}), inner)
        if values:
            merged[key] = values
        else:
            merged.pop(key, None)
    return merged
