"""The controller role of a node: its controller, and the server of the controller listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from cordwood.config.broker import BrokerConfig
from cordwood.config.serving import Listening, limits_of
from cordwood.metadata.controller.decision import new_uuid
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import served_versions, with_unstable_versions
from cordwood.net.dispatch import Dispatch
from cordwood.net.server import Server
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import Random
from cordwood.wire.schema import MetadataRecord

from .controller import Controller
from .handlers import HANDLERS
from .local_channel import LocalChannel, answering
from .registration import controller_registration

T = TypeVar("T")


class ControllerRole:
    """`channel` is the way to the controller for a broker of the same node."""

    def __init__(
        self,
        controller: Controller,
        channel: LocalChannel,
        dispatch: Dispatch[Controller],
        server: Server,
        addresses: Mapping[str, Address],
    ) -> None:
        self.controller = controller
        self.channel = channel
        self.dispatch = dispatch
        self.server = server
        # Where each of its listeners is reached, by its name.
        self.addresses = addresses

    @classmethod
    async def start(
        cls,
        node_config: NodeConfig,
        cluster_id: str,
        log: MetadataLog,
        loader: Loader,
        bootstrap: Sequence[MetadataRecord],
        listening: Listening,
        *,
        clock: Clock,
        random: Random,
    ) -> ControllerRole:
        """Registers the controller. Connections are accepted when the node says so. Raises `Refusal` where the log
        cannot be written."""
        config = node_config.current
        handlers = with_unstable_versions(
            [handler for handler in HANDLERS if "controller" in handler.listeners], config.flag
        )
        controller = Controller(
            cluster_id, node_config, log, loader, clock, random, served_versions(handlers), bootstrap
        )
        dispatch = Dispatch(controller, answering(handlers), _no_disk)
        server, addresses = listening
        server.serve(dispatch)
        channel = LocalChannel(controller)
        await channel.ask(controller_registration(config, addresses, new_uuid(random), controller.image.features))
        role = cls(controller, channel, dispatch, server, addresses)
        node_config.subscribe(role._set_limits)
        return role

    def _set_limits(self, config: BrokerConfig) -> None:
        self.server.limits = limits_of(config)


def _no_disk(error: DiskError) -> None:
    raise AssertionError("handlers of a controller touch no disk") from error
