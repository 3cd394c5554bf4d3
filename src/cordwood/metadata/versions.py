"""The version in which each record is written, so that every node of the finalized `metadata.version` can read it.

Levels are Kafka's: 7 is 3.3, 13 (3.6) brought transactions of metadata, 17 (3.7) log directory ids, 23 (4.0) eligible
leader replicas, 30 (4.3) cordoned log directories.
"""

from cordwood.wire.messages.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from cordwood.wire.schema import MetadataRecord

MINIMUM_LEVEL = 7
ZK_MIGRATION_LEVEL = 8
SCRAM_LEVEL = 11
TRANSACTION_LEVEL = 13
DELEGATION_TOKEN_LEVEL = 14
CONTROLLER_REGISTRATION_LEVEL = 15
DIRECTORY_ASSIGNMENT_LEVEL = 17
ELR_LEVEL = 23
CORDONED_DIRECTORIES_LEVEL = 30
LATEST_LEVEL = 30

# Levels that cannot be downgraded from, since they added records or fields that older nodes cannot read.
LEVELS_WITH_NEW_METADATA = frozenset({8, 11, 13, 14, 15, 17, 23, 30})


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            if metadata_version >= ELR_LEVEL:
                return 2
            return 1 if metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL else 0
        case RegisterBrokerRecord():
            if metadata_version >= CORDONED_DIRECTORIES_LEVEL:
                return 4
            if metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
                return 3
            return 2 if metadata_version >= ZK_MIGRATION_LEVEL else 1
        case BrokerRegistrationChangeRecord():
            # As Kafka does: the lowest version that can say it.
            if record.cordoned_log_dirs is not None:
                return 3
            if record.log_dirs:
                return 2
            return 1 if record.in_controlled_shutdown else 0
        case _:
            return 0
