"""`cordwood log dump`: prints the contents of a log directory's files as it reads them."""

import json
import sys
from typing import Any

from .text import printable, text_line
from .tree import DumpOptions, NotKafka, dump
from .verify import Totals

EXIT_PROBLEMS = 1
EXIT_BAD_INPUT = 2


def log_dump(paths: list[str], options: DumpOptions, *, as_json: bool, quiet: bool) -> int:
    """Dumps every path and returns the exit code. Problems fail the command only with --verify."""
    exit_code = 0
    failed = 0
    for path in paths:
        try:
            _dump_path(path, options, as_json=as_json, quiet=quiet)
        except (OSError, NotKafka) as error:
            print(f"cordwood: {_told(path, error)}", file=sys.stderr)
            exit_code = EXIT_BAD_INPUT
            failed += 1
    # Where nothing could be verified, "0 problems" would be misleading.
    if options.totals is not None and failed < len(paths):
        _print_summary(options.totals, as_json)
    if exit_code == 0 and options.totals is not None and options.totals.problems:
        return EXIT_PROBLEMS
    return exit_code


def _dump_path(path: str, options: DumpOptions, *, as_json: bool, quiet: bool) -> None:
    write = sys.stdout.write
    for described in dump(path, options):
        kind = described["type"]
        if kind == "batch":
            # Flush, so that a user sees each batch as soon as it is read.
            sys.stdout.flush()
        if kind == "problem" and options.totals is not None:
            options.totals.problems += 1
        if kind == "problem" or not quiet:
            write((json.dumps(_with_text(described)) if as_json else text_line(described)) + "\n")


def _with_text(described: dict[str, Any]) -> dict[str, Any]:
    """Adds the text of keys and values, which are hex, where they are printable."""
    if described["type"] == "record":
        for name in ("key", "value"):
            text = None if described[name] is None else printable(bytes.fromhex(described[name]))
            if text is not None:
                described[f"{name}Text"] = text
    return described


def _print_summary(totals: Totals, as_json: bool) -> None:
    if as_json:
        summary = {"batches": totals.batches, "records": totals.records, "problems": totals.problems}
        print(json.dumps({"type": "summary"} | summary))
    else:
        print(f"{totals.batches} batches, {totals.records} records, {totals.problems} problems")


def _told(path: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return str(error)
