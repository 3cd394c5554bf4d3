"""The fixtures of this folder, from modules that have their own names."""

from tests.foreign_clients.clients_fixtures import *  # noqa: F403
from tests.foreign_clients.group_fixtures import *  # noqa: F403
