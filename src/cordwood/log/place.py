"""The location of a partition's files, and what its segments share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cordwood.runtime.disk import Disk

if TYPE_CHECKING:
    from .index import IndexCache


@dataclass(frozen=True, slots=True)
class Place:
    disk: Disk
    directory: str
    cache: "IndexCache"
    # A segment keeps the interval that it was created with.
    index_interval_bytes: int
