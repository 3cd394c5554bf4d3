"""The life cycle of a broker: registration, heartbeats, fencing, controlled shutdown, removal.

The times of heartbeats are not in the log and so not in the image: the caller tracks sessions, and calls
`fence_broker`.
"""

from collections.abc import Mapping
from enum import Enum, auto

from cordwood.metadata.image import (
    METADATA_VERSION,
    Broker,
    ControllerNode,
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionRegistration,
    is_reserved_directory,
)
from cordwood.metadata.image_records import broker_record, controller_record
from cordwood.metadata.versions import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    MINIMUM_LEVEL,
)
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from cordwood.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from cordwood.wire.messages.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from cordwood.wire.messages.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from cordwood.wire.schema import MetadataRecord

from .decision import ControllerDefaults
from .partition_change import has_leaderships, is_elr_enabled, leaderless_changes, removal_changes

_FENCE, _UNFENCE = 1, -1
_IN_CONTROLLED_SHUTDOWN = 1


# Registration


class Contact(Enum):
    """The controller's contact with the registered incarnation of a broker (docs/adr/0007)."""

    # Its session has ended: it was silent for too long, or said that it stops.
    NONE = auto()
    # It has a session but no heartbeat connection: that broke, or this controller has not seen one yet.
    OUT_OF_TOUCH = auto()
    # It has a session and a heartbeat connection.
    CONNECTED = auto()


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    defaults: ControllerDefaults,
    *,
    cluster_id: str,
    next_offset: int,
    old_incarnation: Contact = Contact.NONE,
) -> Decision[BrokerRegistrationResponse]:
    """A new incarnation gets `next_offset` as its epoch, the offset of the first of the records; the same incarnation
    keeps its epoch. `old_incarnation` is the contact with the registered incarnation. If that is not fenced yet, the
    same records fence it."""
    existing = image.brokers.get(request.broker_id)
    try:
        _check_registration(image, request, existing, cluster_id, old_incarnation)
        features = _registered_features(image, request)
    except Refusal as refusal:
        return Decision(BrokerRegistrationResponse(error_code=refusal.error))
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[MetadataRecord] = []
    knows_directories = image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
    if existing is not None and not is_same:
        records += _replace_incarnation(image, request, defaults, existing)
    broker = Broker(
        request.broker_id,
        existing.epoch if existing is not None and is_same else next_offset,
        request.incarnation_id,
        tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in request.listeners),
        features,
        request.rack,
        existing.fenced if existing is not None and is_same else True,
        existing is not None and is_same and existing.in_controlled_shutdown,
        tuple(request.log_dirs) if knows_directories else (),
    )
    records.append(broker_record(broker))
    return Decision(BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=broker.epoch), records)


def _replace_incarnation(
    image: MetadataImage, request: BrokerRegistrationRequest, defaults: ControllerDefaults, existing: Broker
) -> list[MetadataRecord]:
    """The old incarnation leads nothing any more, and is in no ISR."""
    is_unclean = _stopped_uncleanly(request, existing)
    if is_unclean and is_elr_enabled(image):
        return removal_changes(image, defaults, existing.id, is_unclean=True)

    def is_given_up(partition: PartitionRegistration) -> bool:
        directory = partition.directory_of(existing.id)
        if directory not in request.log_dirs and not is_reserved_directory(directory):
            # The broker came back without it.
            return True
        # The only replica of a partition is complete after a clean stop, and no other broker could lead it in between.
        return not existing.fenced and (is_unclean or len(partition.replicas) > 1)

    return removal_changes(image, defaults, existing.id, where=is_given_up)


def _stopped_uncleanly(request: BrokerRegistrationRequest, existing: Broker) -> bool:
    """A broker that stopped cleanly knows the epoch that it had: it wrote it down then (KIP-966)."""
    return existing.epoch != request.previous_broker_epoch


def _check_registration(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: Broker | None,
    cluster_id: str,
    old_incarnation: Contact,
) -> None:
    if request.cluster_id != cluster_id:
        raise Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    is_other = existing is not None and existing.incarnation_id != request.incarnation_id
    if existing is not None and is_other and not _may_replace(request, existing, old_incarnation):
        raise Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
        return
    if not request.log_dirs:
        raise Refusal(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(is_reserved_directory(directory) for directory in request.log_dirs):
        raise Refusal(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise Refusal(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in image.brokers.values():
        if broker.id != request.broker_id and not set(broker.log_dirs).isdisjoint(request.log_dirs):
            raise Refusal(
                ErrorCode.INVALID_REGISTRATION, f"Broker {broker.id} is already registered with one of the directories"
            )


def _may_replace(request: BrokerRegistrationRequest, existing: Broker, old_incarnation: Contact) -> bool:
    """A broker locks its directories. One that has a directory of the old incarnation has taken it over from a dead
    process; one that has another directory may be a second node with the same id."""
    if old_incarnation is Contact.OUT_OF_TOUCH:
        return not set(existing.log_dirs).isdisjoint(request.log_dirs)
    return old_incarnation is Contact.NONE


def _registered_features(image: MetadataImage, request: BrokerRegistrationRequest) -> Mapping[str, FeatureRange]:
    """The broker's supported features, which must include every finalized level."""
    features = {
        feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    features.setdefault(METADATA_VERSION, FeatureRange(MINIMUM_LEVEL, MINIMUM_LEVEL))
    for name in {**features, **image.features}:
        level = image.features.get(name, 0)
        if level not in features.get(name, FeatureRange(0, 0)):
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}.",
            )
    return features


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Metadata from before Kafka 3.7 has no controllers' records: Kafka could no longer read it."""
    response = ControllerRegistrationResponse(error_code=ErrorCode.NONE, error_message=None)
    if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return Decision(response)
    controller = ControllerNode(
        request.controller_id,
        request.incarnation_id,
        tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in request.listeners),
        {
            feature.name: FeatureRange(feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
    )
    return Decision(response, [controller_record(controller)])


# Heartbeats


def broker_heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    defaults: ControllerDefaults,
    *,
    others_caught_up: bool = True,
) -> Decision[BrokerHeartbeatResponse]:
    """Unfences a broker that has caught up with its own registration, and lets a stopping one go once it leads nothing.
    `others_caught_up`: every active broker has applied that."""
    try:
        broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    except Refusal as refusal:
        return Decision(BrokerHeartbeatResponse(error_code=refusal.error))
    is_caught_up = request.current_metadata_offset >= broker.epoch
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE, is_caught_up=is_caught_up, is_fenced=broker.fenced, should_shut_down=False
    )
    records: list[MetadataRecord] = []
    if broker.fenced:
        if request.want_shut_down:
            response.should_shut_down = True
        elif not request.want_fence and is_caught_up:
            records += _unfence(image, defaults, broker)
            response.is_fenced = False
    elif request.want_shut_down and not _may_stop(image, request, broker, others_caught_up=others_caught_up):
        if not broker.in_controlled_shutdown:
            records += _begin_controlled_shutdown(image, defaults, broker)
    elif request.want_shut_down or request.want_fence:
        records += fence_broker(image, defaults, broker.id)
        response.is_fenced, response.should_shut_down = True, request.want_shut_down
    records += _directory_changes(image, request, defaults, broker)
    return Decision(response, records)


def check_broker_epoch(image: MetadataImage, broker_id: int, epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refusal(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise Refusal(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


def _may_stop(image: MetadataImage, request: BrokerHeartbeatRequest, broker: Broker, *, others_caught_up: bool) -> bool:
    if broker.in_controlled_shutdown:
        return others_caught_up and not has_leaderships(image, broker.id)
    return request.want_fence or not has_leaderships(image, broker.id)


def _unfence(image: MetadataImage, defaults: ControllerDefaults, broker: Broker) -> list[MetadataRecord]:
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE)
    return [record, *leaderless_changes(image, defaults, broker.id)]


def _begin_controlled_shutdown(
    image: MetadataImage, defaults: ControllerDefaults, broker: Broker
) -> list[MetadataRecord]:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN
    )
    return [record, *removal_changes(image, defaults, broker.id)]


def fence_broker(image: MetadataImage, defaults: ControllerDefaults, broker_id: int) -> list[MetadataRecord]:
    """The broker leaves every ISR and leads nothing until its next heartbeat."""
    epoch = image.brokers[broker_id].epoch
    record = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=_FENCE)
    return [*removal_changes(image, defaults, broker_id), record]


def _directory_changes(
    image: MetadataImage, request: BrokerHeartbeatRequest, defaults: ControllerDefaults, broker: Broker
) -> list[MetadataRecord]:
    """Directories that failed (KIP-858) or take no new replicas (KIP-1066)."""
    records: list[MetadataRecord] = []
    online = [directory for directory in broker.log_dirs if directory not in request.offline_log_dirs]
    if image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL and len(online) < len(broker.log_dirs):
        offline = set(broker.log_dirs) - set(online)
        records += removal_changes(
            image, defaults, broker.id, where=lambda partition: partition.directory_of(broker.id) in offline
        )
        records.append(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online))
    cordoned = request.cordoned_log_dirs
    if (
        image.metadata_version >= CORDONED_DIRECTORIES_LEVEL
        and cordoned is not None
        and (broker.cordoned_log_dirs is None or set(cordoned) != set(broker.cordoned_log_dirs))
    ):
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned)
        )
    return records


# Removal


def unregister_broker(
    image: MetadataImage, request: UnregisterBrokerRequest, defaults: ControllerDefaults
) -> Decision[UnregisterBrokerResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return Decision(
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            ),
        )
    record = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    response = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message="")
    return Decision(response, [*removal_changes(image, defaults, broker.id), record])
