"""The fixtures of this folder, from modules that have names of their own."""

from connector_fixtures import *  # noqa: F403
from spark_fixtures import *  # noqa: F403
