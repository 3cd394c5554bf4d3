"""What goes wrong between Spark and a cluster, told in one sentence."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.client.errors import ClientError


class SparkError(Exception):
    """The text is for people, on one line."""


class BadOption(SparkError, ValueError):
    """An option that is not known, or a value that will not do; the text says what would."""


class CannotRead(SparkError):
    """What was asked for is not there to be read."""


class DataLoss(CannotRead):
    """Records that were to be read are gone."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """Around what Spark calls in a Python worker: our own errors go to the user as their sentence alone.

    Spark shows the worker's traceback, which says nothing to who mistyped an address. The variable is the one by which
    Spark hides it; it is set for no longer than the error takes, because a worker ends with its error.
    """
    try:
        yield
    except (SparkError, ClientError) as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if isinstance(error, SparkError):
            raise
        advice = f"; {error.what_to_do}" if error.what_to_do else ""
        raise SparkError(f"{error}{advice}") from None
