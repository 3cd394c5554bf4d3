"""The fixtures of this folder, from a module that has its own name."""

from tests.client.client_fixtures import *  # noqa: F403
