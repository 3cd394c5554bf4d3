"""Writing a log's leader epochs ahead of a flush, in steps: a flush that has to do it itself blocks for two syncs."""

from functools import partial

from cordwood.runtime.disk import Disk

from .files import LEADER_EPOCHS
from .log import Log
from .steps import Steps


def writing_epochs(log: Log, writer: str) -> Steps[None]:
    """The file has its new name at the end, and is durable with the next flush, which syncs the directory. Not to be
    gone on with when the log is discarded meanwhile. A `writer` does this once at a time; several may."""
    if not log.epochs.changed:
        return
    path, data = f"{log.directory}/{LEADER_EPOCHS}", log.epochs.encode()
    # Beside the file until it takes its place.
    draft = f"{path}.{writer}"
    yield partial(_write, log.disk.another(), draft, data)
    if log.epochs.changed and log.epochs.encode() == data:
        log.durability.install_epochs(draft)
    else:
        log.disk.remove(draft)


def _write(disk: Disk, path: str, data: bytes) -> None:
    file = disk.create(path)
    file.append(data)
    file.sync()
    file.close()
    disk.close()
