"""`cordwood consume`: prints records of topics, to their end or following them."""

from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, reaching_cluster
from cordwood.cli.framework.completion import complete_group, complete_topic
from cordwood.cli.records.consuming import ConsumeOptions, consume_records

app = typer.Typer(add_completion=False)

_FIELDS_HELP = "{topic} {partition} {offset} {timestamp} {time} {key} {value} {headers} {key_size} {value_size}"


@app.command(
    epilog="Examples:\n\n"
    "cordwood consume orders\n\n"
    "cordwood consume orders --follow --from latest --keys\n\n"
    "cordwood consume orders --from @-1h --until @-30m --json | jq .value\n\n"
    "cordwood consume orders --registry http://localhost:8081\n\n"
    "cordwood consume orders --partition 2 --from -10 --format '{offset} {time} {key} {value}\\n'\n\n"
    "cordwood consume orders --group billing --follow\n\n"
    "cordwood consume 'orders-*' bills --follow --format '{topic} {value}\\n'"
)
@reaching_cluster
def consume(
    access: Access,
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC...",
            help="Topics to read, or patterns such as 'orders-*'.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ],
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            "-o",
            metavar="SPOT",
            help="Where to begin: earliest, latest, an offset, -N (the last N of each partition), @TIME, @-1h; "
            "for one partition: 0=SPOT. May be repeated. Default: earliest.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--until", metavar="SPOT", help="Where to stop (exclusive); same values as --from.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep reading new records; implied by --from latest.")
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="Stop after this many records.")] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Read as a member of this group: start at its committed offsets, and commit what is printed.",
            autocompletion=complete_group,
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print key, separator and value.")] = False,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-K", metavar="TEXT", help="Separator between key and value.")
    ] = r"\t",
    text_format: Annotated[
        str | None, typer.Option("--format", "-F", metavar="FORMAT", help=f"Fields: {_FIELDS_HELP}.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line; bytes that are not text are base64.")
    ] = False,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="Record delimiter; not for --json or --format.")
    ] = r"\n",
    null: Annotated[str, typer.Option("--null", metavar="TEXT", help="Text printed for a null key or value.")] = "",
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Skip records of open or aborted transactions.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL",
            help="Decode values, and keys that have a schema, by this schema registry, to JSON.",
            show_default=False,
        ),
    ] = None,
    registry_user: Annotated[
        str | None, typer.Option(metavar="USER:PASSWORD", help="For a registry with basic authentication.")
    ] = None,
) -> None:
    """Print the records of topics, like cat, or like tail -f with --follow. Ctrl-C ends it."""
    consume_records(
        access,
        ConsumeOptions(
            topics,
            start or (),
            until or (),
            follow,
            count,
            partitions or (),
            group,
            keys,
            key_separator,
            text_format,
            as_json,
            delimiter,
            null,
            read_committed,
            quiet,
            registry,
            registry_user,
        ),
    )
