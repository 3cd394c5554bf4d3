"""The controller role of a node: its controller, and the server of the controller listeners."""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.config.serving import Listening
from cordwood.metadata.controller.decision import new_uuid
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import served_versions, with_unstable_versions
from cordwood.net.dispatch import Dispatch
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.randomness import Random
from cordwood.wire.schema import MetadataRecord

from .controller import Controller
from .handlers import HANDLERS
from .local_channel import LocalChannel, answering
from .registration import controller_registration


class ControllerRole:
    """`channel` is the way to the controller for a broker of the same node."""

    def __init__(
        self,
        controller: Controller,
        channel: LocalChannel,
        dispatch: Dispatch[Controller],
        listening: Listening,
    ) -> None:
        self.controller = controller
        self.channel = channel
        self.dispatch = dispatch
        self.listening = listening

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
        """Registers the controller, by where `listening` is reached; connections are accepted with `accept`. Raises
        Refusal where the log cannot be written."""
        config = node_config.current
        handlers = with_unstable_versions(
            [handler for handler in HANDLERS if "controller" in handler.listeners], config.flag
        )
        controller = Controller(
            cluster_id, node_config, log, loader, clock, random, served_versions(handlers), bootstrap
        )
        dispatch = Dispatch(controller, answering(handlers), _no_disk)
        channel = LocalChannel(controller)
        registration = controller_registration(config, listening.addresses, new_uuid(random), controller.finalized)
        await channel.ask(registration)
        return cls(controller, channel, dispatch, listening)

    def accept(self) -> None:
        self.listening.server.accept(self.dispatch)


def _no_disk(error: DiskError) -> None:
    raise AssertionError("handlers of a controller touch no disk") from error
