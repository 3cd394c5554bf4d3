"""`cordwood log`: inspecting log directories."""

from typing import Annotated

import typer

from cordwood.broker.start.standalone import DEFAULT_DATA
from cordwood.cli.dump.log_dirs import log_dirs as dirs
from cordwood.cli.dump.log_dump import log_dump as dump
from cordwood.cli.dump.segment import Selection
from cordwood.cli.dump.tree import DumpOptions
from cordwood.cli.dump.verify import Totals
from cordwood.cli.terminal.consent import YesDelete

app = typer.Typer(help="Inspect log directories of Cordwood or Kafka.", no_args_is_help=True, add_completion=False)


@app.command("dump")
def log_dump(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="A segment, index, snapshot or checkpoint file, a partition's directory, or a whole log directory.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line (fields: docs/log-dump.md).")] = False,
    indexes: Annotated[bool, typer.Option("--indexes", help="Show the indexes of segments, too.")] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Check checksums, offsets and indexes; end with a summary, and with exit code 1 on problems.",
        ),
    ] = False,
    records: Annotated[bool, typer.Option("--records/--no-records", help="Show the records of each batch.")] = True,
    from_offset: Annotated[
        int, typer.Option("--from", metavar="OFFSET", help="Start with the batch that contains this offset.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="Show at most N batches of each segment.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show problems and the summary only.")] = False,
) -> None:
    """Print the contents of the files of a log directory. Changes and locks nothing; safe beside a running broker.

    Exit codes: 0, 1 (--verify found problems), 2 (a path cannot be read or does not belong to a log directory).
    """
    options = DumpOptions(Selection(records, from_offset, limit), indexes, Totals() if verify else None)
    raise typer.Exit(dump(paths, options, as_json=as_json, quiet=quiet))


@app.command("dirs")
def log_dirs(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR...", help="Data directories (log.dirs).", show_default=DEFAULT_DATA),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    remove_strays: Annotated[
        bool,
        typer.Option(
            "--remove-strays",
            help="Permanently remove stray partitions: those set aside because the metadata did not know them.",
        ),
    ] = False,
    yes: YesDelete = False,
) -> None:
    """List the contents of data directories: partitions, strays and folders that are not Cordwood's. Needs no running
    node.

    Without --remove-strays nothing is changed; safe beside a running node, which does not use strays.

    Exit codes: 0, 2 (a path is not a data directory).
    """
    raise typer.Exit(dirs(paths or [DEFAULT_DATA], as_json=as_json, remove_strays=remove_strays, yes=yes))
