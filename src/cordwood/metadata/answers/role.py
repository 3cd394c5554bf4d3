"""Common base of brokers and controllers."""

from collections.abc import Mapping
from typing import Protocol

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.image import MetadataImage
from cordwood.wire.schema import Versions


class Role(Protocol):
    @property
    def config(self) -> BrokerConfig:
        """Including dynamic settings."""

    @property
    def image(self) -> MetadataImage:
        """As of the last committed record that reached the role."""

    @property
    def kraft_version(self) -> int:
        """The quorum's own feature level, which is not part of the image."""

    @property
    def served_versions(self) -> Mapping[int, Versions]:
        """The APIs that the role's listeners serve, by key."""
