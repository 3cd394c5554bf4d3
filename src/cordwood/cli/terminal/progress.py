"""A progress bar on the error stream, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[int, int], None]
"""Called with the amount done, in the unit of the total, and the number of items."""


@contextmanager
def progress(text: str, total: int | None, *, wanted: bool, unit: str = "records") -> Iterator[Update]:
    """Without a total it shows only that work continues."""
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
