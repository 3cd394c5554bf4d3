"""Reading the metadata of a directory that no node runs on, as far as it can be read; nothing is changed."""

from cordwood.log.files import LOG, file_name, parse_file_name
from cordwood.log.storage.batches import whole_batches
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.runtime.disk import Disk
from cordwood.wire.record import CorruptBatch

from .batch import read_batch
from .disk_log import METADATA_DIRECTORY
from .snapshot import decode_snapshot, parse_snapshot_name


def read_image(disk: Disk) -> MetadataImage:
    """The newest snapshot that can be read and the log after it, up to its end or to the first damage."""
    loader = _newest_snapshot(disk)
    names = (parse_file_name(entry.name) for entry in disk.list(METADATA_DIRECTORY) if not entry.is_directory)
    bases = sorted(name.base_offset for name in names if name is not None and name.kind == LOG and not name.stage)
    try:
        for base in bases:
            file = disk.open(f"{METADATA_DIRECTORY}/{file_name(base, LOG)}")
            for _, header, data in whole_batches(file, 0, file.size):
                offset = loader.image.covers.offset
                if header.next_offset > offset or loader.in_transaction:
                    loader.load(read_batch(data, 0, header, 0 if loader.in_transaction else offset))
            file.close()
    except (CorruptBatch, InvalidMetadata):
        return loader.image
    return loader.image


def _newest_snapshot(disk: Disk) -> Loader:
    found = {parse_snapshot_name(entry.name): entry.name for entry in disk.list(METADATA_DIRECTORY)}
    for snapshot_id, name in sorted((id_, name) for id_, name in found.items() if id_ is not None)[::-1]:
        path = f"{METADATA_DIRECTORY}/{name}"
        try:
            return Loader.of_snapshot(snapshot_id, decode_snapshot(path, disk.read_file(path) or b""))
        except InvalidMetadata:
            continue
    return Loader()
