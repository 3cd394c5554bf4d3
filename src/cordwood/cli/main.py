"""The `cordwood` command. Commands import what they need when they run, so that `--version` and `--help` are quick."""

from typing import Annotated

import typer

app = typer.Typer(
    help="A distributed commit log that speaks Apache Kafka's protocol.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
log_app = typer.Typer(help="Look into log directories, of Cordwood or of Kafka.", no_args_is_help=True)
app.add_typer(log_app, name="log")


def main() -> None:
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from cordwood import __version__
        from cordwood.wire.records import COMPILED

        typer.echo(f"cordwood {__version__} (records: {'compiled' if COMPILED else 'pure Python'})")
        raise typer.Exit


@app.callback()
def cordwood(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version, and whether records run compiled or in pure Python.",
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


@log_app.command("dump")
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
        int, typer.Option("--from", metavar="OFFSET", help="Begin with the batch that holds this offset.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="Show at most N batches of each segment.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show problems and the summary only.")] = False,
) -> None:
    """Print what the files of a log directory hold. Nothing is changed or locked, also beside a running broker.

    Exit codes: 0, 1 (--verify found problems), 2 (a path cannot be read or is nothing of a log directory).
    """
    from cordwood.cli.dump.segment import Selection
    from cordwood.cli.dump.tree import DumpOptions
    from cordwood.cli.dump.verify import Totals
    from cordwood.cli.log_dump import log_dump as dump

    options = DumpOptions(Selection(records, from_offset, limit), indexes, Totals() if verify else None)
    raise typer.Exit(dump(paths, options, as_json=as_json, quiet=quiet))
