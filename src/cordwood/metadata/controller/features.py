"""UpdateFeatures: finalized levels go up, or down where nothing is lost by that."""

from collections.abc import Callable
from enum import IntEnum

from cordwood.metadata.features import ELR_VERSION, KRAFT_VERSION, REQUIRED_METADATA_VERSION, SUPPORTED
from cordwood.metadata.image import BROKER_DEFAULT, METADATA_VERSION, FeatureRange, MetadataImage, ResourceType
from cordwood.metadata.versions import LEVELS_WITH_NEW_METADATA
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cordwood.wire.schema import MetadataRecord

from .decision import ControllerDefaults
from .partition_change import MIN_INSYNC_REPLICAS, is_elr_enabled

_UNSUPPORTED = FeatureRange(0, 0)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    node_id: int,
    defaults: ControllerDefaults,
    *,
    kraft_version: int = SUPPORTED[KRAFT_VERSION].high,
    upgrade_kraft_version: Callable[[int], None] = lambda _level: None,
) -> Decision[UpdateFeaturesResponse]:
    """All or none. `node_id` is this controller's, `kraft_version` the quorum's, which is not a record of this log:
    `upgrade_kraft_version` raises it. That is called once everything else is valid, and raises Refusal if the voters do
    not support the level."""
    current = {**image.features, KRAFT_VERSION: kraft_version}
    proposed = {**current, **{update.feature: update.max_version_level for update in request.feature_updates}}
    records: list[MetadataRecord] = []
    try:
        for update in request.feature_updates:
            _check_update(image, update, node_id, current, proposed)
            if update.feature != KRAFT_VERSION:
                records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
        if proposed[KRAFT_VERSION] > kraft_version:
            upgrade_kraft_version(proposed[KRAFT_VERSION])
    except Refusal as refusal:
        message = f"The update failed for all features since the following feature had an error: {refusal}"
        return Decision(UpdateFeaturesResponse(error_code=refusal.error, error_message=message, results=[]))
    if proposed.get(ELR_VERSION, 0) > 0 and not is_elr_enabled(image):
        records += _min_isr_records(image, defaults)
    results = [
        UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message="NONE")
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results)
    return Decision(response, [] if request.validate_only else records)


def _check_update(
    image: MetadataImage,
    update: FeatureUpdateKey,
    node_id: int,
    current_levels: dict[str, int],
    proposed_levels: dict[str, int],
) -> None:
    name, level = update.feature, update.max_version_level
    current = current_levels.get(name, 0)
    # Version 0 of the request has a flag instead of a type, and Kafka 4 ignores it.
    kind = update.upgrade_type
    if kind not in tuple(UpgradeType):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    reason = _reason_not_supported(image, name, level, node_id)
    if reason is not None:
        raise _invalid(name, level, reason)
    if name not in SUPPORTED and name not in current_levels:
        raise _invalid(name, level, f"Feature {name} not found.")
    if level < current and kind == UpgradeType.UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and kind != UpgradeType.UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level, kind)
    elif name == KRAFT_VERSION and level < current:
        raise _invalid(name, level, "Can't downgrade the version of this feature.")
    required = REQUIRED_METADATA_VERSION.get((name, level), 0)
    if proposed_levels.get(METADATA_VERSION, 0) < required:
        raise _invalid(
            name, level, f"{name} could not be set to {level} because it depends on metadata.version level {required}"
        )


def _check_metadata_version(current: int, level: int, kind: int) -> None:
    if level >= current or not any(changed in LEVELS_WITH_NEW_METADATA for changed in range(level + 1, current + 1)):
        return
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind == UpgradeType.UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    raise Refusal(
        ErrorCode.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    )


def _reason_not_supported(image: MetadataImage, name: str, level: int, node_id: int) -> str | None:
    nodes = [(f"Local controller {node_id}", SUPPORTED)]
    nodes += [(f"Broker {broker.id}", dict(broker.features)) for broker in image.brokers.values()]
    nodes += [
        (f"Controller {controller.id}", dict(controller.features))
        for controller in image.controllers.values()
        if controller.id != node_id
    ]
    for node, features in nodes:
        levels = features.get(name, _UNSUPPORTED)
        if level not in levels:
            if levels.high == 0:
                return f"{node} does not support this feature."
            return f"{node} only supports versions {levels.low}-{levels.high}"
    return None


def _invalid(name: str, level: int, reason: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")


def _min_isr_records(image: MetadataImage, defaults: ControllerDefaults) -> list[MetadataRecord]:
    """Moves `min.insync.replicas` from brokers to the cluster when eligible leader replicas are enabled (KIP-966)."""
    records: list[MetadataRecord] = []
    if MIN_INSYNC_REPLICAS not in image.config(BROKER_DEFAULT):
        records.append(_min_isr_record(BROKER_DEFAULT.name, str(defaults.min_insync_replicas)))
    for resource, config in image.configs.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in config:
            records.append(_min_isr_record(resource.name, None))
    return records


def _min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)
