"""The features of Kafka 4.3 and their levels: what this node supports, and what a new cluster begins with."""

from .image import METADATA_VERSION, FeatureRange
from .versions import LATEST_LEVEL, MINIMUM_LEVEL

ELR_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
KRAFT_VERSION = "kraft.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"

SUPPORTED: dict[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(MINIMUM_LEVEL, LATEST_LEVEL),
    SHARE_VERSION: FeatureRange(0, 1),
    STREAMS_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELR_VERSION: FeatureRange(0, 1),
}

# What `kafka-storage format` of 4.3 finalizes. kraft.version is not among them: the quorum keeps it in its own records.
BOOTSTRAP_LEVELS: dict[str, int] = {
    METADATA_VERSION: LATEST_LEVEL,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}

# (feature, level) -> the `metadata.version` that it needs.
REQUIRED_METADATA_VERSION: dict[tuple[str, int], int] = {(ELR_VERSION, 1): 23}
