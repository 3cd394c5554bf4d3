"""The log of a new partition. It has no files until the first write: creating files is most of the cost of creating a
topic, and an unwritten partition is recreated from the cluster's metadata at the next start."""

from collections.abc import Callable

from cordwood.log.checkpoints.formats import encode_partition_metadata
from cordwood.log.idempotence.producers import Producers
from cordwood.log.idempotence.snapshots import ProducerSnapshots
from cordwood.log.storage.index import Place
from cordwood.log.storage.segment import Segment
from cordwood.log.storage.segments import Segments
from cordwood.runtime.disk import Buffer, File, FileGone
from cordwood.runtime.randomness import Random
from cordwood.wire.primitives import Uuid

from .config import LogConfig
from .epochs import LeaderEpochs
from .files import LOG, PARTITION_METADATA
from .log import Log
from .removals import Removals


def new_log(
    place: Place,
    topic_id: Uuid,
    config: LogConfig,
    random: Random,
    *,
    now_ms: int,
    producer_expiration_ms: int,
    removals: Removals,
) -> Log:
    first = Segment(place, 0, {LOG: 0}, now_ms)

    def make_files() -> None:
        place.disk.make_directory(place.directory, sync=False)
        metadata = place.disk.create(f"{place.directory}/{PARTITION_METADATA}")
        metadata.append(encode_partition_metadata(topic_id))
        metadata.close()
        first.file = place.disk.create(first.path(LOG))
        first.has_file = True

    log = Log(
        place,
        config,
        random,
        Segments([first]),
        LeaderEpochs(),
        Producers(producer_expiration_ms),
        ProducerSnapshots(place.disk, place.directory, []),
        start_offset=0,
        end_offset=0,
        recovery_point=0,
        now_ms=now_ms,
        removals=removals,
        make_files=make_files,
        is_clean=True,
    )

    def made() -> File:
        log.make_files()
        return first.file

    first.file = _FileToCome(first.path(LOG), made)
    first.has_file = False
    return log


class _FileToCome:
    """Placeholder for a file that does not exist yet: reads find nothing, any other operation creates it."""

    __slots__ = ("_is_discarded", "_make", "path", "size")

    def __init__(self, path: str, make: Callable[[], File]) -> None:
        self.path = path
        self.size = 0
        self._make = make
        self._is_discarded = False

    def append(self, data: Buffer) -> None:
        self._made().append(data)

    def read(self, position: int, length: int) -> bytes:
        return b""

    def truncate(self, size: int) -> None:
        self._made().truncate(size)

    def rename(self, path: str) -> None:
        self._made().rename(path)

    def sync(self) -> None:
        self._made().sync()

    def fileno(self) -> int:
        return self._made().fileno()

    def close(self) -> None:
        """Does nothing: no descriptor is held."""

    def discard(self) -> None:
        self._is_discarded = True

    def _made(self) -> File:
        if self._is_discarded:
            raise FileGone(f"{self.path} was deleted before it was created")
        return self._make()
