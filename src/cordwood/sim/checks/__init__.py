"""Invariants of every history. A check is a function that yields violations; each has its own file."""

from collections.abc import Callable, Iterable, Iterator

from cordwood.sim.histories.history import History

from .agreement import offsets_keep_their_records
from .atomicity import transactions_are_all_or_nothing
from .clean_elections import leaders_have_been_in_sync
from .committed_offsets import committed_offsets_never_go_back
from .compaction import the_last_of_each_key_stays
from .completeness import leaders_have_what_is_committed
from .damage import no_batch_is_deleted, other_files_stay, undamaged_partitions_are_served, what_is_lost_is_said
from .decisions import decisions_are_kept
from .durability import nothing_promised_is_lost
from .exactly_once import outputs_are_there_exactly_once
from .fencing import zombies_are_fenced
from .given_offsets import only_what_was_given_is_committed
from .healing import the_cluster_heals
from .idempotence import idempotent_sends_are_appended_once_and_in_order
from .isolation import only_what_is_committed_is_read
from .isr_changes import leaders_go_by_the_committed_isr
from .log_matching import members_commit_the_same
from .one_leader import an_epoch_has_one_leader
from .order import sends_keep_the_order_of_time
from .ownership import a_partition_has_one_owner
from .partition_leaders import a_partition_epoch_has_one_leader
from .partition_watermarks import elections_move_no_high_watermark_back, high_watermarks_never_go_back_within_an_epoch
from .polls import polls_leave_nothing_out
from .quorum_progress import epochs_never_go_back, the_metadata_high_watermark_never_goes_back
from .reads import reads_are_whole_and_behind_the_high_watermark
from .reassignments import reassignments_end_in_sync
from .replica_agreement import in_sync_replicas_agree
from .replica_completeness import in_sync_replicas_have_what_is_committed
from .replica_settings import replicas_go_by_their_topics_settings
from .schema_ids import a_schema_has_one_id
from .schema_versions import registered_schemas_are_kept, registries_agree, versions_have_no_gap
from .settings import what_was_set_stays_set
from .settling import groups_settle
from .times import timestamps_are_found
from .topics import topics_stay
from .unseen import nothing_stays_unseen
from .violation import Violation
from .watermarks import watermarks_never_go_back

Check = Callable[[History], Iterator[Violation]]

CHECKS: tuple[Check, ...] = (
    reads_are_whole_and_behind_the_high_watermark,
    polls_leave_nothing_out,
    offsets_keep_their_records,
    nothing_promised_is_lost,
    the_last_of_each_key_stays,
    sends_keep_the_order_of_time,
    idempotent_sends_are_appended_once_and_in_order,
    watermarks_never_go_back,
    timestamps_are_found,
    topics_stay,
    what_was_set_stays_set,
    a_partition_has_one_owner,
    committed_offsets_never_go_back,
    only_what_was_given_is_committed,
    groups_settle,
    only_what_is_committed_is_read,
    transactions_are_all_or_nothing,
    zombies_are_fenced,
    outputs_are_there_exactly_once,
)


# The others cannot hold for damaged files.
DAMAGE_CHECKS: tuple[Check, ...] = (
    no_batch_is_deleted,
    other_files_stay,
    undamaged_partitions_are_served,
    what_is_lost_is_said,
)


# For a cluster with replicated partitions: the checks of clients, as with one node, and those of replicas. The check
# that follows one node's watermarks from start to start is left out: another node may lead here.
CLUSTER_CHECKS: tuple[Check, ...] = (
    an_epoch_has_one_leader,
    the_metadata_high_watermark_never_goes_back,
    leaders_have_what_is_committed,
    members_commit_the_same,
    a_partition_epoch_has_one_leader,
    leaders_have_been_in_sync,
    leaders_go_by_the_committed_isr,
    high_watermarks_never_go_back_within_an_epoch,
    elections_move_no_high_watermark_back,
    in_sync_replicas_agree,
    in_sync_replicas_have_what_is_committed,
    replicas_go_by_their_topics_settings,
    reassignments_end_in_sync,
    the_cluster_heals,
    nothing_stays_unseen,
    *(check for check in CHECKS if check is not watermarks_never_go_back),
)


# For the metadata quorum.
QUORUM_CHECKS: tuple[Check, ...] = (
    an_epoch_has_one_leader,
    epochs_never_go_back,
    the_metadata_high_watermark_never_goes_back,
    leaders_have_what_is_committed,
    members_commit_the_same,
    decisions_are_kept,
    the_cluster_heals,
)


# For schema registries on a replicated topic.
REGISTRY_CHECKS: tuple[Check, ...] = (
    a_schema_has_one_id,
    registered_schemas_are_kept,
    versions_have_no_gap,
    registries_agree,
    the_cluster_heals,
)


def violations(history: History, checks: Iterable[Check] = CHECKS) -> list[Violation]:
    return [violation for check in checks for violation in check(history)]


__all__ = [
    "CHECKS",
    "CLUSTER_CHECKS",
    "DAMAGE_CHECKS",
    "QUORUM_CHECKS",
    "REGISTRY_CHECKS",
    "Check",
    "Violation",
    "violations",
]
