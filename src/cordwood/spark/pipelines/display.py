"""Progress on the error stream: a table that changes in place, or lines if that is not a terminal. Unreachable brokers
are listed below the table."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cordwood.spark.pipelines.figures import QueryFigures
from cordwood.spark.pipelines.outages import Outages

_REPEATED_AFTER_S = 15.0
_HEAD = ("query", "batches", "rows in", "rows out", "lag", "last batch", "")


class Display(Protocol):
    def show(self, queries: Sequence[QueryFigures], outages: Outages) -> None: ...


@contextmanager
def display() -> Iterator[Display]:
    """A display that suits the error stream. The output stream belongs to the pipeline."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield LiveTable(live)


class LiveTable:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, queries: Sequence[QueryFigures], outages: Outages) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in _HEAD:
            table.add_column(column, justify="left" if column in ("query", "") else "right", no_wrap=True)
        for query in queries:
            # Text, not markup: a name may hold brackets.
            table.add_row(*(Text(cell) for cell in _cells(query)))
        now_s = outages.now_s()
        told = [Text(outage.told(now_s), style="yellow") for outage in outages.current()]
        self._live.update(Group(table, *told), refresh=True)
        for line in outages.over():
            # It stays, above the table.
            self._live.console.print(Text(line))


class Lines:
    """Prints a line for each query whenever it completes a batch or ends; and for unreachable brokers, at doubling
    intervals."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        # The time of an outage's next report, by its start.
        self._due_s: dict[tuple[str, float], float] = {}

    def show(self, queries: Sequence[QueryFigures], outages: Outages) -> None:
        now_s = outages.now_s()
        for outage in outages.current():
            outage_id = outage.address, outage.since_s
            if now_s >= self._due_s.get(outage_id, 0.0):
                self._due_s[outage_id] = now_s + max(now_s - outage.since_s, _REPEATED_AFTER_S)
                print(outage.told(now_s), file=sys.stderr, flush=True)
        for line in outages.over():
            print(line, file=sys.stderr, flush=True)
        for query in queries:
            name, batches, rows_in, rows_out, lag, took, status = _cells(query)
            line = (
                f"{name}: {status}, {batches} batches, {rows_in} rows in, {rows_out} out, lag {lag}, last took {took}"
            )
            if self._shown.get(query.name) != line:
                self._shown[query.name] = line
                print(line, file=sys.stderr, flush=True)


def _cells(query: QueryFigures) -> tuple[str, ...]:
    return (
        query.name,
        f"{query.batches:,}",
        f"{query.rows_in:,}",
        _number(query.rows_out),
        _number(query.lag),
        f"{query.batch_ms / 1000:.1f} s" if query.batches else "-",
        query.status,
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
