"""The start of a cluster's metadata: the result of formatting a directory, and the first controller's records.

`format_directory` does what `kafka-storage format` does to a directory; the caller writes `meta.properties`, which
marks it as formatted, afterwards.
"""

from collections.abc import Mapping, Sequence

from cordwood.metadata.storage.disk_log import METADATA_DIRECTORY
from cordwood.metadata.storage.snapshot import (
    CONFIGURED_VOTERS,
    QuorumVoters,
    decode_snapshot,
    encode_snapshot,
    snapshot_name,
)
from cordwood.raft.identity import Endpoints, ReplicaKey, VersionRange
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.runtime.disk import Disk
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import MetadataRecord

from .features import BOOTSTRAP_LEVELS, ELR_VERSION, KRAFT_VERSION, SUPPORTED
from .image import BROKER_DEFAULT, METADATA_VERSION, OffsetAndEpoch
from .versions import TRANSACTION_LEVEL

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
MIN_INSYNC_REPLICAS = "min.insync.replicas"


def format_directory(
    disk: Disk,
    voters: VoterSet | None,
    *,
    now_ms: int,
    levels: Mapping[str, int] = BOOTSTRAP_LEVELS,
) -> None:
    """Writes `bootstrap.checkpoint` with the features of the new cluster and, for a metadata directory of a dynamic
    quorum, the snapshot at offset 0 that names the first voters."""
    features = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
    disk.write_file(BOOTSTRAP_CHECKPOINT, _checkpoint(features, now_ms, last_timestamp_ms=0))
    if voters is not None:
        disk.make_directory(METADATA_DIRECTORY)
        quorum = QuorumVoters(SUPPORTED[KRAFT_VERSION].high, voters.to_record())
        disk.write_file(
            f"{METADATA_DIRECTORY}/{snapshot_name(OffsetAndEpoch(0, 0))}",
            _checkpoint([], now_ms, last_timestamp_ms=now_ms, quorum=quorum),
        )


def first_voter(node_id: int, directory_id: Uuid, endpoints: Endpoints) -> VoterNode:
    """A voter of a dynamic quorum, as formatting names it."""
    levels = SUPPORTED[KRAFT_VERSION]
    return VoterNode(ReplicaKey(node_id, directory_id), endpoints, VersionRange(levels.low, levels.high))


def _checkpoint(
    records: Sequence[MetadataRecord],
    now_ms: int,
    *,
    last_timestamp_ms: int,
    quorum: QuorumVoters = CONFIGURED_VOTERS,
) -> bytes:
    return encode_snapshot(
        records,
        metadata_version=BOOTSTRAP_LEVELS[METADATA_VERSION],
        epoch=0,
        last_timestamp_ms=last_timestamp_ms,
        now_ms=now_ms,
        quorum=quorum,
    )


def read_bootstrap(disk: Disk) -> list[MetadataRecord]:
    """The records that the directory was formatted with; the defaults where there is no such file."""
    data = disk.read_file(BOOTSTRAP_CHECKPOINT)
    if data is None:
        return [FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]
    return decode_snapshot(BOOTSTRAP_CHECKPOINT, data).records


def activation_records(bootstrap: Sequence[MetadataRecord], min_insync_replicas: int) -> list[MetadataRecord]:
    """The first records in a log without metadata, which set the features: one transaction, if the version of the new
    cluster knows transactions (KIP-868). They are one batch anyway, which is committed as a whole.

    With eligible leader replicas `min.insync.replicas` belongs to the cluster and not to each broker, so the configured
    value becomes the dynamic default (KIP-966).
    """
    records = list(bootstrap)
    if any(isinstance(record, FeatureLevelRecord) and record.name == ELR_VERSION for record in bootstrap):
        records.append(
            ConfigRecord(
                resource_type=BROKER_DEFAULT.type,
                resource_name=BROKER_DEFAULT.name,
                name=MIN_INSYNC_REPLICAS,
                value=str(min_insync_replicas),
            )
        )
    if bootstrap_version(bootstrap) < TRANSACTION_LEVEL:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]


def bootstrap_version(bootstrap: Sequence[MetadataRecord]) -> int:
    """The `metadata.version` to write the activation in."""
    for record in bootstrap:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return BOOTSTRAP_LEVELS[METADATA_VERSION]
