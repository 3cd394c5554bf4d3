"""The fixtures of this folder, from a module that has a name of its own."""

from tests.client.client_fixtures import *  # noqa: F403
