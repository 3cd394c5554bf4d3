"""The limits of a server on its connections, and counts of connections closed or refused because of them."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from operator import add


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server, with the names of Kafka's settings in comments, and Kafka's defaults."""

    request_max_bytes: int = 104_857_600  # socket.request.max.bytes
    # queued.max.requests, of each connection: one that has so many in work is not read from.
    max_requests_in_work: int = 500
    # Per connection: requests in progress and unsent responses, together. Above it the connection is not read from.
    max_held_bytes: int = 8_388_608
    idle_ms: int = 600_000  # connections.max.idle.ms; negative: no limit
    max_connections: int = 2_147_483_647  # max.connections
    # max.connections of single listeners, by their names; they count towards the limit of all.
    max_connections_of_listener: Mapping[str, int] = field(default_factory=dict)
    max_connections_per_ip: int = 2_147_483_647  # max.connections.per.ip
    # max.connections.per.ip.overrides, by numeric address.
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Counts:
    """Counters of a server since it was made."""

    accepted: int = 0
    refused: int = 0
    closed_idle: int = 0
    bad_frames: int = 0
    bad_requests: int = 0
    handler_failures: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(add, astuple(self), astuple(other)))
