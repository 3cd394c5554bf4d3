"""Output of commands: tables for people, tab-separated lines for pipes, JSON for programs."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None, kind: str | None = None
) -> None:
    """Prints a table with a title and a head on a terminal; elsewhere the rows alone, separated by tabs, for cut and
    awk.

    If a command prints several tables, `kind` begins each row of a pipe, to tell them apart.
    """
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(_cell(value) for value in ([kind, *row] if kind is not None else row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if title is not None:
        print(f"\n{title}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a topic or a value may contain brackets.
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def print_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Prints names with a value each."""
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        print(f"{name + ':':<{width}}{_cell(value)}" if sys.stdout.isatty() else f"{name}\t{_cell(value)}")


def print_bytes(contents: bytes | bytearray) -> None:
    """Writes unformatted and unbuffered: a reader may wait for each record."""
    sys.stdout.buffer.write(contents)
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Prints a message for people only: on the error stream, if that is a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def warn(text: str) -> None:
    print(f"cordwood: {text}", file=sys.stderr)


def counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list | frozenset):
        return ",".join(str(item) for item in value)
    return str(value).replace("\t", " ").replace("\n", " ")
