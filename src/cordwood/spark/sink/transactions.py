"""Transactions of task attempts: their names, and the task's message to the driver.

    cordwood-spark/<query>/ledger                          the driver's own
    cordwood-spark/<query>/<run>/<process>/<number>        of tasks: a streaming query's
    cordwood-spark/batch/<job>/<process>/<number>          of tasks: a batch job's

A name belongs to one Python process, which runs one task at a time; so no two attempts ever write under the same name,
and none can take over, and so abort, another one's prepared transaction. A process uses a name again in a later batch
of the same run: Spark starts that only when the one before is committed.
"""

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.sink.names import TRANSACTIONAL_ID_PREFIX

_JOB = "batch"


@dataclass(frozen=True, slots=True)
class Scope:
    """The owner of transactions: a run of a query, or a batch job."""

    query: str
    run: str

    @property
    def of_query(self) -> str:
        """Common prefix of the names of all runs."""
        return f"{TRANSACTIONAL_ID_PREFIX}{self.query}/"

    @property
    def prefix(self) -> str:
        return f"{self.of_query}{self.run}/"

    @property
    def is_job(self) -> bool:
        """For a batch job: nothing is recorded."""
        return self.query == _JOB


def batch_job() -> Scope:
    return Scope(_JOB, uuid.uuid4().hex)


def ledger_id(query: str) -> str:
    return f"{TRANSACTIONAL_ID_PREFIX}{query}/ledger"


@dataclass
class TaskDone(WriterCommitMessage):
    """The result of a task attempt."""

    scope: Scope
    transaction: LeftTransaction | None
    """None where nothing was written."""
    rows: int = 0
    bytes: int = 0
    found_decided: bool = False
    """The batch was decided before the task began, so that it has written nothing."""
    sweeps: int = 0
    """Those of the ledger's last entry, as it was before the transaction began."""


def sweeps_seen(tasks: Iterable[TaskDone]) -> frozenset[int]:
    """Returns the sweep counts of the tasks that have written."""
    return frozenset(task.sweeps for task in tasks if task.transaction is not None)


@dataclass
class NamePool:
    """The names of one process, in one scope."""

    prefix: str
    _process: str = field(default_factory=lambda: f"{os.getpid()}-{uuid.uuid4().hex[:12]}")
    _used_in: dict[str, int] = field(default_factory=dict)

    def take(self, batch: int) -> str:
        """One that no batch that is not over has used."""
        for name, used_in in self._used_in.items():
            if used_in < batch:
                self._used_in[name] = batch
                return name
        name = f"{self.prefix}{self._process}/{len(self._used_in)}"
        self._used_in[name] = batch
        return name
