"""The authenticated user of a connection."""

from typing import NamedTuple


class Principal(NamedTuple):
    """The name in Kafka's ACLs: `User:alice`."""

    type: str
    name: str
    # By a delegation token.
    is_token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


# The principal of unauthenticated connections.
ANONYMOUS = Principal("User", "ANONYMOUS")
