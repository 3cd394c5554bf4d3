"""The difference between an image and a snapshot that replaces it, as a delta that publishers can act on."""

from collections.abc import Mapping, Sequence
from typing import Any

from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.schema import MetadataRecord

from .delta import MetadataDelta
from .image import MetadataImage, OffsetAndEpoch


def snapshot_delta(before: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataDelta:
    """Applied to `before`, the delta gives the snapshot's image. Equal parts are not in it: a broker need not reopen
    unchanged partitions."""
    after = MetadataDelta(MetadataImage()).replay_all(list(records)).apply(OffsetAndEpoch(0, 0), 0)
    delta = MetadataDelta(before)
    # Removals first: a name may have been given to another topic since.
    for topic_id in before.topics.by_id:
        if topic_id not in after.topics.by_id:
            delta.replay(RemoveTopicRecord(topic_id=topic_id))
    for record in records:
        if not _is_known(before, after, record):
            delta.replay(record)
    _remove_missing(delta.brokers, before.brokers, after.brokers)
    _remove_missing(delta.features, before.features, after.features)
    _remove_missing(delta.acls, before.acls, after.acls)
    _remove_missing(delta.scram, before.scram, after.scram)
    _remove_missing(delta.delegation_tokens, before.delegation_tokens, after.delegation_tokens)
    _remove_missing_keys(delta.configs, before.configs, after.configs)
    _remove_missing_keys(delta.client_quotas, before.client_quotas, after.client_quotas)
    return delta


def _is_known(before: MetadataImage, after: MetadataImage, record: MetadataRecord) -> bool:
    if isinstance(record, TopicRecord):
        return record.topic_id in before.topics.by_id
    if isinstance(record, PartitionRecord):
        topic = before.topics.by_id.get(record.topic_id)
        if topic is None:
            return False
        known = topic.partitions.get(record.partition_id)
        return known is not None and known == after.topics.by_id[record.topic_id].partitions[record.partition_id]
    return False


def _remove_missing(changes: dict[Any, Any], before: Mapping[Any, Any], after: Mapping[Any, Any]) -> None:
    for key in before:
        if key not in after:
            changes[key] = None


def _remove_missing_keys(
    changes: dict[Any, dict[str, Any]], before: Mapping[Any, Mapping[str, Any]], after: Mapping[Any, Mapping[str, Any]]
) -> None:
    for resource, values in before.items():
        kept = after.get(resource) or {}
        for key in values:
            if key not in kept:
                changes.setdefault(resource, {})[key] = None
