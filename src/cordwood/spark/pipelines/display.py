"""Progress on the error stream: a table that changes in place, or lines where that is no terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cordwood.spark.pipelines.figures import QueryFigures

_HEAD = ("query", "batches", "rows in", "rows out", "lag", "last batch", "")


class Display(Protocol):
    def show(self, queries: Sequence[QueryFigures]) -> None: ...


@contextmanager
def display() -> Iterator[Display]:
    """What fits the error stream. The output stream is the pipeline's own."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield LiveTable(live)


class LiveTable:
    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, queries: Sequence[QueryFigures]) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in _HEAD:
            table.add_column(column, justify="left" if column in ("query", "") else "right", no_wrap=True)
        for query in queries:
            # Text, not markup: a name may hold brackets.
            table.add_row(*(Text(cell) for cell in _cells(query)))
        self._live.update(table, refresh=True)


class Lines:
    """A line for each query whenever it has done another batch, or has ended."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def show(self, queries: Sequence[QueryFigures]) -> None:
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
