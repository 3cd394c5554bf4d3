"""A progress bar on the error stream, if that is a terminal and somebody may be waiting."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int, int], None]
"""Told what is done, in the unit of the total, and how many things that is."""


@contextmanager
def progress(text: str, total: int | None, *, wanted: bool, unit: str = "records") -> Iterator[Update]:
    """Without a total it shows that work goes on."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done, count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[count]:,} " + unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total, count=0)
        yield lambda done, count: bar.update(task, completed=done, count=count)
