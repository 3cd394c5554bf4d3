"""The fixtures of this folder, from a module that has a name of its own."""

from tests.net.net_fixtures import *  # noqa: F403
