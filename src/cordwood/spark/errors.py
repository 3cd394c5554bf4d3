"""Errors between Spark and a cluster, each in one sentence."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from cordwood.client.errors import ClientError
from cordwood.spark.closed_pipes import silence_closed_pipes


class SparkError(Exception):
    """The text is for people, on one line."""


class BadOption(SparkError, ValueError):
    """An option is unknown, or a value is invalid; the text says what is allowed."""


class CannotRead(SparkError):
    """The requested data does not exist or cannot be read."""


class CannotWrite(SparkError):
    """The rows cannot become records; the text says which column is wrong."""


class DataLoss(CannotRead):
    """Records were deleted before they were read."""


@contextmanager
def told_plainly() -> Iterator[None]:
    """Wraps methods that Spark calls in a Python worker: the user sees only the message of our own errors. Spark shows
    the worker's traceback, which does not help with a mistyped address. It hides the traceback with this variable,
    which stays set, because a worker ends with its error.
    """
    silence_closed_pipes()
    try:
        yield
    except (SparkError, ClientError) as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if isinstance(error, SparkError):
            raise
        raise SparkError(in_option_names(advised(error))) from None


def advised(error: ClientError) -> str:
    """The error, and the remedy if it is known."""
    return f"{error}; {error.what_to_do}" if error.what_to_do else str(error)


def in_option_names(text: str) -> str:
    """Spark's users know the client's settings as options: `kafka.bootstrap.servers`, not `bootstrap_servers`."""
    from cordwood.client.consumer.settings import ConsumerSettings
    from cordwood.client.options.configuration import setting_names
    from cordwood.client.options.security import Security
    from cordwood.client.producer.settings import ProducerSettings

    names = {*setting_names(ConsumerSettings), *setting_names(ProducerSettings), *(f.name for f in fields(Security))}
    spelled = "|".join(sorted((name for name in names if "_" in name), key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])({spelled})(?![\w.-]*\w)", lambda found: option_name(found[0]), text)


def option_name(setting: str) -> str:
    return f"kafka.{setting.replace('_', '.')}"
