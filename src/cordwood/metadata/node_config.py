"""A node's configuration: its static settings, overridden by the dynamic ones in the metadata."""

import logging
from collections.abc import Callable

from cordwood.config.broker import BrokerConfig
from cordwood.config.errors import ConfigError

from .delta import MetadataDelta
from .image import BROKER_DEFAULT, MetadataImage, broker_resource

_log = logging.getLogger(__name__)

Listener = Callable[[BrokerConfig], None]


class NodeConfig:
    """A publisher of the loader, subscribed before those that use the configuration."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        # An immutable value, replaced when a dynamic setting changes.
        self.current = config
        self._own = broker_resource(config.node_id)
        self._listeners: list[Listener] = []
        self._configure(image)

    def subscribe(self, listener: Listener) -> None:
        """Calls the listener now, and whenever the configuration has changed."""
        self._listeners.append(listener)
        listener(self.current)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if BROKER_DEFAULT in delta.configs or self._own in delta.configs:
            self._configure(image)

    def _configure(self, image: MetadataImage) -> None:
        try:
            config = self.current.with_dynamic(image.config(BROKER_DEFAULT), image.config(self._own))
        except ConfigError as error:
            # It was checked before it was stored; by another release, perhaps.
            _log.error("Ignoring invalid dynamic configuration: %s", error)
            return
        for problem in config.left_out:
            _log.warning("Ignoring a dynamic setting: %s", problem)
        self.current = config
        for listener in list(self._listeners):
            listener(config)
