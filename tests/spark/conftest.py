"""The fixtures of this folder, from modules that have their own names."""

import os

from tests.spark.connector_fixtures import *  # noqa: F403
from tests.spark.registry_fixtures import *  # noqa: F403
from tests.spark.spark_fixtures import *  # noqa: F403

# For all Javas of these tests, which hardly live long enough for the better compiler and collector to pay: starting a
# session takes 15 s of a processor instead of 25.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
