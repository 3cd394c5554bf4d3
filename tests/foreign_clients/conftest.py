"""The fixtures of this folder, from modules that have names of their own."""

from tests.foreign_clients.clients_fixtures import *  # noqa: F403
from tests.foreign_clients.group_fixtures import *  # noqa: F403
