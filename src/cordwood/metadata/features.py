"""The features of Kafka 4.3 and their levels: the levels that this node supports, and those of a new cluster."""

from collections.abc import Mapping

from .image import METADATA_VERSION, FeatureRange
from .versions import LATEST_LEVEL, MINIMUM_LEVEL

ELR_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
KRAFT_VERSION = "kraft.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"

# The supported levels: clients see these, and no others can be finalized.
SUPPORTED: dict[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(MINIMUM_LEVEL, LATEST_LEVEL),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELR_VERSION: FeatureRange(0, 1),
}

# Features that a cluster may have finalized although they are not supported here, as every cluster formatted by Kafka
# 4.3 has: the level stays in the metadata for brokers that support it, and clients of this node don't see it.
TOLERATED: dict[str, FeatureRange] = {
    SHARE_VERSION: FeatureRange(0, 1),
    STREAMS_VERSION: FeatureRange(0, 1),
}

# The features that `kafka-storage format` of 4.3 finalizes and that are supported here. kraft.version is not among
# them: the quorum keeps it in its own records.
BOOTSTRAP_LEVELS: dict[str, int] = {
    METADATA_VERSION: LATEST_LEVEL,
    ELR_VERSION: 1,
    GROUP_VERSION: 1,
    TRANSACTION_VERSION: 2,
}

# (feature, level) -> the `metadata.version` that it needs.
REQUIRED_METADATA_VERSION: dict[tuple[str, int], int] = {(ELR_VERSION, 1): 23}


def registered_features(finalized: Mapping[str, int]) -> dict[str, FeatureRange]:
    """The feature ranges that a node registers: a finalized level outside of them keeps it out of the cluster."""
    return {**SUPPORTED, **{name: levels for name, levels in TOLERATED.items() if name in finalized}}


def unsupported_feature(finalized: Mapping[str, int]) -> str | None:
    """The reason why a node cannot join a cluster with these finalized levels; None if it can."""
    known = registered_features(finalized)
    for name, level in finalized.items():
        levels = known.get(name, FeatureRange(0, 0))
        if level not in levels:
            return f"{name} is finalized at level {level}, and this release supports {levels.low} to {levels.high}"
    return None
