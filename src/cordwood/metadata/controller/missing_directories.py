"""A broker that came back without one of its directories."""

from collections.abc import Container

from cordwood.metadata.image import MetadataImage, is_reserved_directory
from cordwood.shard.decision import Decision
from cordwood.wire.primitives import Uuid

from .decision import ControllerDefaults
from .partition_change import removal_changes


def leave_missing_directories(image: MetadataImage, defaults: ControllerDefaults, broker_id: int) -> Decision[None]:
    """It leads nothing of what it has in a directory that it did not register. Kafka's brokers need not be told: they
    lead nothing when they come back, since they were fenced or have handed everything over before."""
    registered = image.brokers[broker_id].log_dirs
    missing = _AllBut(registered)
    return Decision(None, removal_changes(image, defaults, broker_id, in_directories=missing) if registered else [])


class _AllBut(Container[Uuid]):
    """Every directory but some, and but the ids that are no directory's."""

    def __init__(self, directories: tuple[Uuid, ...]) -> None:
        self._directories = directories

    def __contains__(self, directory: object) -> bool:
        assert isinstance(directory, bytes)
        return directory not in self._directories and not is_reserved_directory(directory)
