"""Ways to break what a node does with damaged files. The checks have to find each."""

from collections.abc import Container, Iterator

import pytest

from cordwood.broker import role
from cordwood.broker.start import log_dirs
from cordwood.log import recovery, removals
from cordwood.log.dirs import contents
from cordwood.log.dirs.directories import LogDirectories
from cordwood.log.storage.segment import Segment
from cordwood.metadata.storage import damage
from cordwood.metadata.storage.damage import Damage
from cordwood.replica.strays import Unknown
from cordwood.runtime.disk import Disk
from cordwood.wire.primitives import Uuid

Patch = pytest.MonkeyPatch


def delete_what_the_metadata_does_not_know(patch: Patch) -> None:
    def put_aside(directories: LogDirectories, unknown: list[Unknown], deleted: Container[Uuid | None]) -> None:
        for found in unknown:
            found.directory.finish_deletion(found.topic, found.partition)

    patch.setattr(role, "put_aside", put_aside)


def take_any_damage_for_an_unfinished_write(patch: Patch) -> None:
    mend = damage.mend

    def mend_all(disk: Disk, directory: str, snapshot: int, recorded: int | None, *, accept_loss: bool) -> None:
        mend(disk, directory, snapshot, recorded, accept_loss=True)

    patch.setattr("cordwood.metadata.storage.disk_log.mend", mend_all)
    patch.setattr(role, "check_strays", lambda *_arguments, **_options: None)


def take_any_numbered_folder_for_a_partition(patch: Patch) -> None:
    patch.setattr(contents, "is_partition_file", lambda name: True)
    patch.setattr(removals, "is_partition_file", lambda name: True)
    delete_what_the_metadata_does_not_know(patch)


def begin_anew_without_metadata(patch: Patch) -> None:
    patch.setattr(log_dirs, "_check_metadata", lambda *_arguments, **_options: None)
    take_any_damage_for_an_unfinished_write(patch)


def keep_nothing_that_is_cut_off(patch: Patch) -> None:
    patch.setattr(Segment, "keep_as_corrupt", lambda segment, position, sync=True: "")


def keep_no_metadata_that_is_cut_off(patch: Patch) -> None:
    cut = damage._cut

    def cut_only(disk: Disk, directory: str, found: Damage) -> Iterator[str]:
        for copy in cut(disk, directory, found):
            disk.remove(copy)
        return iter(())

    patch.setattr(damage, "_cut", cut_only)


def say_nothing_of_missing_segments(patch: Patch) -> None:
    patch.setattr(recovery._Opening, "_tell_loss", lambda *_: None)
    patch.setattr(recovery._Opening, "_look_for_losses", lambda *_: None)


DAMAGE_MUTANTS = [
    delete_what_the_metadata_does_not_know,
    take_any_damage_for_an_unfinished_write,
    take_any_numbered_folder_for_a_partition,
    begin_anew_without_metadata,
    keep_nothing_that_is_cut_off,
    keep_no_metadata_that_is_cut_off,
    say_nothing_of_missing_segments,
]
