"""The fixtures of this folder, from modules that have names of their own."""

from clients_fixtures import *  # noqa: F403
from group_fixtures import *  # noqa: F403
