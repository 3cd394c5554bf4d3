"""A member of a consumer group: a program that real people could have written, in a separate process.

It works on each record (that is: writes it down), commits what it has done, and obeys commands on a pipe.
"""

import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Protocol

from tests.foreign_clients import aiokafka_member, cordwood_member, kafka_python_member, librdkafka_member
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.member_spec import MemberSpec

# The time in which an idle member notices a command.
POLL_S = 0.05

LEAVE = "leave"
STALL = "stall"
GO_ON = "go on"


class GroupConsumer(Protocol):
    """A library's consumer. Assignments, losses and records go into the journal."""

    def poll(self, wait_s: float) -> None: ...

    def commit(self) -> None:
        """Commits uncommitted work; records a rejection."""
        ...

    def stall(self, until: Callable[[], object]) -> None:
        """Polls no more until then. The library's background work continues."""
        ...

    def close(self) -> None:
        """Leaves the group, as the library does it."""
        ...


LIBRARIES: dict[str, Callable[[MemberSpec, Journal], GroupConsumer]] = {
    "librdkafka": librdkafka_member.LibrdkafkaMember,
    "kafka-python": kafka_python_member.KafkaPythonMember,
    "aiokafka": aiokafka_member.AiokafkaMember,
    "cordwood": cordwood_member.CordwoodMember,
}


def run(spec: MemberSpec, orders: Connection) -> None:
    """Runs until it is told to leave, is killed, or its parent has exited."""
    with spec.journal.with_suffix(".log").open("ab") as log:
        os.dup2(log.fileno(), 2)
    journal = Journal(spec.journal, spec.name)
    try:
        _work(LIBRARIES[spec.library](spec, journal), journal, orders)
    except EOFError:
        pass
    except BaseException:
        journal.tell("failed", traceback.format_exc())
        raise


def _work(consumer: GroupConsumer, journal: Journal, orders: Connection) -> None:
    while True:
        if orders.poll():
            order = orders.recv()
            if order == LEAVE:
                consumer.close()
                journal.tell("left")
                return
            assert order == STALL
            journal.tell("stalled")
            consumer.stall(orders.recv)
        consumer.poll(POLL_S)
        if journal.uncommitted:
            consumer.commit()
