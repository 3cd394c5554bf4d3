"""After any damage to a node's files: nothing intact is deleted, other partitions are served, and losses are logged."""

from collections import defaultdict
from collections.abc import Iterator

from cordwood.log.files import CORRUPT, DELETE_DIRECTORY, LOG, directory_name, parse_directory_name
from cordwood.replica.strays import MANY_STRAYS
from cordwood.sim.histories.damage import DamageHistory, Injury, Means, whole_batches
from cordwood.sim.histories.history import History, Partition

from .violation import Violation

_TOPIC_ID_FILE = "partition.metadata"
# A log line about a loss has one of these words, and names the partition.
_LOSSES = ("lost", "missing", "damaged", "cutting", "-stray")


def no_batch_is_deleted(history: History) -> Iterator[Violation]:
    """Every intact batch is still in its partition, in data cut off from it, or in a stray."""
    damage = history.damage
    kept: dict[str, list[bytes]] = defaultdict(list)
    for path, data in damage.after.items():
        kept[_partition_of(path)].append(data)
    for path, data in damage.before.items():
        partition = _partition_of(path)
        if not _is_records(path) or partition.rpartition("-")[0] in damage.deleted_topics:
            continue
        for batch in whole_batches(data):
            if not any(batch in other for other in kept[partition]):
                yield Violation("no batch is deleted", f"{len(batch)} bytes of {path} are gone; {_told(damage)}")
                break


def other_files_stay(history: History) -> Iterator[Violation]:
    damage = history.damage
    for path, data in damage.foreign.items():
        if damage.after.get(path) != data:
            yield Violation("files of others are left alone", f"{path} is gone or changed; {_told(damage)}")


def undamaged_partitions_are_served(history: History) -> Iterator[Violation]:
    damage = history.damage
    if damage.topics is None:
        return
    if len(_strays(damage)) > MANY_STRAYS and not damage.has_consent:
        yield Violation("many strays need consent", f"{sorted(_strays(damage))}; {_told(damage)}")
    for partition in _partitions(history):
        if not damage.is_restored and any(_may_cost_records(injury) for injury in damage.of(partition)):
            continue
        name = directory_name(*partition)
        served = damage.served.get(partition)
        if served is None:
            if name not in _strays(damage) and _has_records(damage, name):
                yield Violation(
                    "an undamaged partition is served", f"{name} is neither served nor a stray; {_told(damage)}"
                )
            if damage.is_restored or not _metadata_may_lack_it(damage):
                yield Violation("an undamaged partition is served", f"{name} is not; {_told(damage)}")
            continue
        if not served.is_written:
            yield Violation("an undamaged partition can be written to", f"{name}; {_told(damage)}")
        for offset, value in _acknowledged(history, partition):
            if served.records.get(offset) != value:
                found = served.records.get(offset, f"error {served.errors.get(offset)}")
                yield Violation("an undamaged partition is served", f"{name}@{offset}: {found!r}; {_told(damage)}")
                break


def what_is_lost_is_said(history: History) -> Iterator[Violation]:
    damage = history.damage
    if damage.topics is None or damage.is_restored:
        return
    said = [line for line in history.warnings[damage.warnings_before :] if any(word in line for word in _LOSSES)]
    for partition in _partitions(history):
        name = directory_name(*partition)
        served = damage.served.get(partition)
        if served is None:
            if _has_records(damage, name) and not any(name in line for line in said):
                yield Violation("losses are logged", f"nothing about {name}; {_told(damage)}")
            continue
        flipped = any(injury.means is Means.FLIP for injury in damage.of(partition))
        for offset, value in _acknowledged(history, partition):
            found = served.records.get(offset)
            if found == value or offset in served.errors or any(name in line for line in said):
                continue
            # The checksum covers neither the base offset of a batch nor its length.
            if not flipped:
                yield Violation("losses are logged", f"{name}@{offset}; {_told(damage)}")
                break


def _partitions(history: History) -> list[Partition]:
    known = dict.fromkeys(send.partition for send in history.sends)
    return [partition for partition in known if partition[0] not in history.damage.deleted_topics]


def _acknowledged(history: History, partition: Partition) -> Iterator[tuple[int, bytes]]:
    for send in history.acknowledged():
        if send.partition == partition and send.client != JUDGE:
            yield from enumerate(send.values, send.base_offset)


def _may_cost_records(injury: Injury) -> bool:
    """Everything but records is rebuilt; a wrong topic id makes the partition a stray."""
    return injury.path.endswith((LOG, _TOPIC_ID_FILE))


def _metadata_may_lack_it(damage: DamageHistory) -> bool:
    return bool(damage.of_metadata) or damage.has_consent


def _strays(damage: DamageHistory) -> set[str]:
    return {_partition_of(path) for path in damage.after if "-stray/" in path}


def _has_records(damage: DamageHistory, name: str) -> bool:
    return any(_partition_of(path) == name and _is_records(path) for path in damage.before)


def _is_records(path: str) -> bool:
    """For a partition whose deletion has not begun: its topic was deleted, or it was moved to another directory."""
    folder, _, file = path.rpartition("/")
    if folder.endswith(DELETE_DIRECTORY):
        return False
    return file.endswith(LOG) or f"{LOG}{CORRUPT}" in file


def _partition_of(path: str) -> str:
    """Under any name of its directory."""
    folder = path.rpartition("/")[0].rpartition("/")[2]
    parsed = parse_directory_name(folder)
    return folder if parsed is None else directory_name(parsed.topic, parsed.partition)


def _told(damage: DamageHistory) -> str:
    consent = " with consent" if damage.has_consent else ""
    return f"{', '.join(map(str, damage.injuries))}; started{consent}, refused {damage.refusals}"


JUDGE = "judge"
