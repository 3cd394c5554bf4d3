"""Where the controllers of the quorum are reached."""

from __future__ import annotations

from typing import NamedTuple

from .controller import Controller


class ControllerEndpoint(NamedTuple):
    listener: str
    host: str
    port: int


def controller_endpoints(controller: Controller) -> dict[int, list[ControllerEndpoint]]:
    """By id: as the controllers have registered, or else as the voters' record has them."""
    voters = controller.log.quorum.voters
    found = {
        voter.voter_id: [ControllerEndpoint(end.name, end.host, end.port) for end in voter.endpoints]
        for voter in (voters.voters if voters is not None else ())
    }
    for node in controller.image.controllers.values():
        found[node.id] = [ControllerEndpoint(end.name, end.host, end.port) for end in node.endpoints]
    return found
