"""The user in whose name requests are made."""

from typing import NamedTuple


class Principal(NamedTuple):
    """As Kafka's ACLs name it: `User:alice`."""

    type: str
    name: str
    # By a delegation token.
    is_token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


# Of connections that nobody has authenticated.
ANONYMOUS = Principal("User", "ANONYMOUS")
