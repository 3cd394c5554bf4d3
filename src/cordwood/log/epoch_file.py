"""Writes a log's leader epochs ahead of a flush, in steps: a flush that has to do it itself blocks for two syncs."""

from functools import partial

from cordwood.runtime.disk import Disk

from .files import LEADER_EPOCHS
from .log import Log
from .steps import Steps


def writing_epochs(log: Log, writer: str) -> Steps[None]:
    """Renames the file into place at the end; it is durable with the next flush, which syncs the directory. Must not be
    continued once the log is discarded. A `writer` runs one at a time; there may be several writers."""
    if not log.epochs.changed:
        return
    path, data = f"{log.directory}/{LEADER_EPOCHS}", log.epochs.encode()
    # The temporary file.
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
