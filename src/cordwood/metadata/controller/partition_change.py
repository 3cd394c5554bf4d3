"""Changes of one partition: its leader, in-sync and eligible replicas, and assignment.

The rules are Kafka's: a leader comes from the ISR, or from the eligible leader replicas when the ISR is empty
(KIP-966); else from the last known leader; else, only if that is allowed, from any replica that is there.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from cordwood.metadata.features import ELR_VERSION
from cordwood.metadata.image import (
    BROKER_DEFAULT,
    NO_LEADER,
    LeaderRecovery,
    MetadataImage,
    PartitionRegistration,
    Topic,
    topic_resource,
)
from cordwood.metadata.versions import DIRECTORY_ASSIGNMENT_LEVEL
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.schema import MetadataRecord

from .assignment import default_directory
from .decision import ControllerDefaults

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

_NO_LEADER_CHANGE = -2


class Election(Enum):
    # Keeps a leader that may go on.
    ONLINE = "online"
    # The first replica, if it is in sync.
    PREFERRED = "preferred"
    # A replica that is not in sync too, rather than none.
    UNCLEAN = "unclean"


class Assignment(NamedTuple):
    """The replicas of a partition, and those of them that a reassignment adds and removes (KIP-455). `replicas` has
    all: those that stay, those that are being added, and at the end those that are being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def completed(self, isr: tuple[int, ...]) -> "Assignment":
        """Without those that are being removed, once all others are in sync."""
        staying = tuple(replica for replica in self.replicas if replica not in self.removing)
        is_complete = (self.adding or self.removing) and staying and set(staying) <= set(isr)
        return Assignment(staying) if is_complete else self


def removal_changes(
    image: MetadataImage,
    defaults: ControllerDefaults,
    broker_id: int,
    *,
    is_unclean: bool = False,
    where: Callable[[PartitionRegistration], bool] | None = None,
) -> list[MetadataRecord]:
    """Removes a broker from every ISR, or from those of the partitions that `where` selects. If it stopped uncleanly it
    may have lost data, so it is not eligible to lead either."""
    changes: list[MetadataRecord] = []
    for topic, partition_id, partition in partitions_of(image):
        if where is None or where(partition):
            change = removal_change(image, defaults, topic, partition_id, broker_id, is_unclean=is_unclean)
            changes += [change] if change is not None else []
    return changes


def removal_change(
    image: MetadataImage,
    defaults: ControllerDefaults,
    topic: Topic,
    partition_id: int,
    broker_id: int,
    *,
    is_unclean: bool = False,
) -> PartitionChangeRecord | None:
    """Removes a broker from the ISR of a partition; None if it is not in it."""
    partition = topic.partitions[partition_id]
    if broker_id not in partition.isr and not (is_unclean and broker_id in partition.elr):
        return None
    return change_partition(
        image,
        defaults,
        topic,
        partition_id,
        isr=tuple(replica for replica in partition.isr if replica != broker_id),
        election=online_election(image, defaults, topic),
        may_lead=lambda replica: replica != broker_id and image.is_active(replica),
        unclean=(broker_id,) if is_unclean else (),
    )


def leaderless_changes(image: MetadataImage, defaults: ControllerDefaults, broker_id: int) -> list[MetadataRecord]:
    """Elects a broker that is about to be unfenced as the leader of partitions without one."""
    changes: list[MetadataRecord] = []
    for topic, partition_id, partition in partitions_of(image):
        if partition.leader == NO_LEADER:
            change = change_partition(
                image,
                defaults,
                topic,
                partition_id,
                election=online_election(image, defaults, topic),
                may_lead=lambda replica: replica == broker_id or image.is_active(replica),
            )
            changes += [change] if change is not None else []
    return changes


def has_leaderships(image: MetadataImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in partitions_of(image))


def change_partition(
    image: MetadataImage,
    defaults: ControllerDefaults,
    topic: Topic,
    partition_id: int,
    *,
    isr: tuple[int, ...] | None = None,
    election: Election = Election.ONLINE,
    may_lead: Callable[[int], bool] | None = None,
    unclean: tuple[int, ...] = (),
    recovery: LeaderRecovery | None = None,
    assignment: Assignment | None = None,
) -> PartitionChangeRecord | None:
    """The record that brings a partition to a new ISR, with a leader of it, to a new `recovery` state, and to a new
    `assignment`; None when nothing changes. A reassignment is completed when the ISR allows it."""
    before = topic.partitions[partition_id]
    isr = before.isr if isr is None else isr
    old_assignment = Assignment(before.replicas, before.adding_replicas, before.removing_replicas)
    assignment = (assignment or old_assignment).completed(isr)
    replicas = assignment.replicas
    isr = tuple(replica for replica in isr if replica in replicas)
    has_elr = is_elr_enabled(image)
    elr = before.elr
    min_isr = _min_isr(image, defaults, topic, replicas)
    if has_elr and len(isr) >= min_isr:
        elr = ()
    elif has_elr:
        elr = tuple(sorted(({*before.elr, *before.isr} - {*isr, *unclean}) & {*replicas}))

    is_active = may_lead or image.is_active

    def may_lead_from_its_directory(replica: int) -> bool:
        return is_active(replica) and image.brokers[replica].has_online_directory(before.directory_of(replica))

    leader, is_unclean = _elect(before, replicas, isr, elr, election, may_lead_from_its_directory, has_elr=has_elr)
    record = PartitionChangeRecord(partition_id=partition_id, topic_id=topic.id)
    if leader != before.leader:
        record.leader = leader
        if leader in elr:
            isr, elr = (leader,), tuple(replica for replica in elr if replica != leader)
            # The minimum may be smaller than it was when they became eligible.
            elr = elr if len(isr) < min_isr else ()
        if is_unclean:
            isr, elr = (leader,), ()
            if before.leader_recovery is not LeaderRecovery.RECOVERING:
                record.leader_recovery_state = LeaderRecovery.RECOVERING
    elif not set(before.replicas) <= set(replicas):
        # A new leader epoch distinguishes a removed replica from one that was added again.
        record.leader = leader
    if recovery is not None and recovery is not before.leader_recovery and record.leader_recovery_state < 0:
        record.leader_recovery_state = recovery
    if not has_elr:
        elr = ()
    if elr != before.elr:
        record.eligible_leader_replicas = list(elr)
    # Without eligible replicas the last in-sync replica stays in the ISR: no other is known to have all the data.
    if isr != before.isr and (isr or has_elr):
        record.isr = list(isr)
    if has_elr:
        _remember_last_leader(record, before)
    _assign(record, image, before, assignment)
    return None if record == PartitionChangeRecord(partition_id=partition_id, topic_id=topic.id) else record


def _assign(
    record: PartitionChangeRecord, image: MetadataImage, before: PartitionRegistration, assignment: Assignment
) -> None:
    if assignment.replicas != before.replicas:
        record.replicas = list(assignment.replicas)
        if image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
            record.directories = [
                before.directory_of(replica) if replica in before.replicas else default_directory(image, replica)
                for replica in assignment.replicas
            ]
    if assignment.removing != before.removing_replicas:
        record.removing_replicas = list(assignment.removing)
    if assignment.adding != before.adding_replicas:
        record.adding_replicas = list(assignment.adding)


def is_elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0


def _remember_last_leader(record: PartitionChangeRecord, before: PartitionRegistration) -> None:
    """When the last replica goes out of sync, the previous leader is kept as `last_known_elr`; a new leader clears
    it."""
    if record.isr == [] and before.leader != NO_LEADER and before.last_known_elr != (before.leader,):
        record.last_known_elr = [before.leader]
        return
    will_lead = before.leader if record.leader == _NO_LEADER_CHANGE else record.leader
    if will_lead != NO_LEADER and before.last_known_elr:
        record.last_known_elr = []


def _elect(
    before: PartitionRegistration,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    election: Election,
    may_lead: Callable[[int], bool],
    *,
    has_elr: bool,
) -> tuple[int, bool]:
    """(the leader or NO_LEADER, whether it may lack committed records)."""
    eligible = isr or elr
    candidates: Iterable[int] = (before.leader, *replicas)
    if election is Election.PREFERRED:
        candidates = (*replicas[:1], *candidates)
    for replica in candidates:
        if replica in eligible and may_lead(replica):
            return replica, False
    if has_elr and not eligible and len(before.last_known_elr) == 1:
        (last_leader,) = before.last_known_elr
        if last_leader in replicas and may_lead(last_leader):
            return last_leader, True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if may_lead(replica):
                return replica, True
    return NO_LEADER, False


def online_election(image: MetadataImage, defaults: ControllerDefaults, topic: Topic) -> Election:
    value = _topic_config(image, topic, UNCLEAN_LEADER_ELECTION)
    is_allowed = defaults.unclean_leader_election if value is None else value.lower() == "true"
    return Election.UNCLEAN if is_allowed else Election.ONLINE


def _min_isr(image: MetadataImage, defaults: ControllerDefaults, topic: Topic, replicas: tuple[int, ...]) -> int:
    value = _topic_config(image, topic, MIN_INSYNC_REPLICAS)
    return min(defaults.min_insync_replicas if value is None else int(value), len(replicas))


def _topic_config(image: MetadataImage, topic: Topic, name: str) -> str | None:
    value = image.config(topic_resource(topic.name)).get(name)
    return image.config(BROKER_DEFAULT).get(name) if value is None else value


def partitions_of(image: MetadataImage) -> Iterator[tuple[Topic, int, PartitionRegistration]]:
    for topic in image.topics:
        for partition_id, partition in topic.partitions.items():
            yield topic, partition_id, partition
