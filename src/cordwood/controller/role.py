"""The controller role of a node: its controller, and the server of the controller listeners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from cordwood.config.network.serving import Listening
from cordwood.metadata.loader import Loader
from cordwood.metadata.metadata_log import MetadataLog
from cordwood.metadata.node_config import NodeConfig
from cordwood.net.api import served_versions, with_unstable_versions
from cordwood.net.gate import Gate
from cordwood.net.pipeline import Pipeline
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from cordwood.wire.schema import MetadataRecord

from .controller import Controller
from .handlers import HANDLERS
from .local_channel import LocalChannel, answering
from .probes import Probes
from .registration import controller_registration

_log = logging.getLogger(__name__)

# Between attempts to register.
_RETRY_S = 0.1

Ask = Callable[[ControllerRegistrationRequest], Awaitable[ControllerRegistrationResponse]]


class ControllerRole:
    """`channel` is the way to this controller for a broker of the same node."""

    def __init__(
        self,
        node_config: NodeConfig,
        cluster_id: str,
        log: MetadataLog,
        loader: Loader,
        bootstrap: Callable[[], Sequence[MetadataRecord]],
        listening: Listening,
        gate: Gate,
        *,
        network: Network,
        clock: Clock,
        random: Random,
    ) -> None:
        self.listening = listening
        self._node_config = node_config
        self._random = random
        handlers = with_unstable_versions(
            [handler for handler in HANDLERS if "controller" in handler.listeners], node_config.current.flag
        )
        self.controller = Controller(
            cluster_id, node_config, log, loader, clock, random, served_versions(handlers), bootstrap
        )
        self.probes = Probes(self.controller, network)
        self.channel = LocalChannel(self.controller)
        self.pipeline = Pipeline(self.controller, answering(handlers), gate, _no_disk)

    def accept(self) -> None:
        """Takes connections. The members of a quorum need each other's answers before any of them has started."""
        self.listening.server.accept(self.pipeline)

    async def register(self, ask: Ask) -> None:
        """Registers this controller's endpoints and features with the active controller, through `ask`. Retries until
        it succeeds: before that the cluster cannot know which features all of its controllers support."""
        incarnation_id = new_uuid(self._random)
        last_error = ErrorCode.NONE
        while True:
            registered = await ask(
                controller_registration(
                    self._node_config.current,
                    self.listening.addresses,
                    incarnation_id,
                    self.controller.finalized,
                )
            )
            error = ErrorCode(registered.error_code)
            if error is ErrorCode.NONE:
                return
            if error is not last_error:
                _log.warning(
                    "The active controller has not registered controller %d: %s; trying again",
                    self.controller.id,
                    error.name,
                )
                last_error = error
            await asyncio.sleep(_RETRY_S)


def _no_disk(error: DiskError) -> None:
    raise AssertionError("handlers of a controller touch no disk") from error
