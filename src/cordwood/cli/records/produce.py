"""`cordwood produce`: writes lines, or JSON, to a topic."""

from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, reaching_cluster
from cordwood.cli.framework.completion import complete_topic
from cordwood.cli.records.producing import Acks, Compression, ProduceOptions, produce_lines

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\n"
    "cordwood produce orders < lines.txt\n\n"
    "echo 'k1:{\"id\": 1}' | cordwood produce orders --key-separator : --compression zstd\n\n"
    "cordwood consume orders --json | cordwood produce copy --create --json --repartition\n\n"
    "find . -print0 | cordwood produce files --delimiter '\\0'"
)
@reaching_cluster
def produce(
    access: Access,
    topic: Annotated[
        str, typer.Argument(help="The topic to write to.", show_default=False, autocompletion=complete_topic)
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="File to read; default, or -: standard input.", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help=r"Separator between key and value, such as '\t'."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Partition to write to; default: by key, or round robin."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a JSON object, as consume --json prints it.")
    ] = False,
    repartition: Annotated[
        bool, typer.Option("--repartition", help="With --json: ignore the partitions in the input.")
    ] = False,
    null: Annotated[
        str | None,
        typer.Option("--null", metavar="TEXT", help="Write null (a tombstone) for a key or value equal to this."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help=r"Record delimiter; '\0' for find -print0.")
    ] = r"\n",
    compression: Annotated[
        Compression | None,
        typer.Option("--compression", "-z", help="Compression of batches.", show_default="none"),
    ] = None,
    acks: Annotated[
        Acks | None,
        typer.Option(
            "--acks",
            "-a",
            help="Replicas that must acknowledge a record: none, the leader, all in-sync ones.",
            show_default="all",
        ),
    ] = None,
    idempotent: Annotated[
        bool | None,
        typer.Option(
            "--idempotent/--no-idempotent",
            help="Idempotent producer: no duplicates after retries (acks=all only).",
            show_default="idempotent",
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL",
            help="Values are JSON, encoded by the latest schema that this registry has for the topic.",
            show_default=False,
        ),
    ] = None,
    registry_user: Annotated[
        str | None, typer.Option(metavar="USER:PASSWORD", help="For a registry with basic authentication.")
    ] = None,
    value_schema: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --registry: register and use this schema.")
    ] = None,
) -> None:
    r"""Write records to a topic, one per line. Exits with 0 when all of them are acknowledged."""
    produce_lines(
        access,
        ProduceOptions(
            topic,
            files or (),
            key_separator,
            key,
            headers or (),
            partition,
            as_json,
            repartition,
            null,
            delimiter,
            compression,
            acks,
            idempotent,
            create,
            quiet,
            registry,
            registry_user,
            value_schema,
        ),
    )
