"""Reads numbers, writes what it makes of them, and commits both in one transaction: a process that dies at any point.

Consume-transform-produce, as the documentation of each library shows it. It can be configured to die at one of its
steps; then it is killed a moment later, within what it does next.
"""

import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

from tests.foreign_clients import (
    aiokafka_transformer,
    cordwood_transformer,
    kafka_python_transformer,
    librdkafka_transformer,
)
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.transforming import Steps, TransformerSpec


class Transformer(Protocol):
    def work(self) -> None:
        """One transaction, if there is anything to do."""
        ...

    def close(self) -> None: ...


LIBRARIES: dict[str, Callable[[TransformerSpec, Steps, Journal], Transformer]] = {
    "librdkafka": librdkafka_transformer.LibrdkafkaTransformer,
    "kafka-python": kafka_python_transformer.KafkaPythonTransformer,
    "aiokafka": aiokafka_transformer.AiokafkaTransformer,
    "cordwood": cordwood_transformer.CordwoodTransformer,
}


def run(spec: TransformerSpec, orders: Connection) -> None:
    """Runs until it is stopped, or dies. An error that its library does not get over ends it too."""
    with spec.journal.with_suffix(".log").open("ab") as log:
        os.dup2(log.fileno(), 2)
    journal = Journal(spec.journal, spec.name)
    try:
        transformer = LIBRARIES[spec.library](spec, Steps(spec), journal)
        while not orders.poll():
            transformer.work()
        orders.recv()
        transformer.close()
        journal.tell("ended")
    except EOFError:
        pass
    except BaseException:
        journal.tell("failed", traceback.format_exc())
        raise
