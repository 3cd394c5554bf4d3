"""Options and arguments that several commands share."""

from typing import Annotated

import typer

from cordwood.cli.framework.completion import complete_topic

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")]
Partitions = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC[:PARTITION,...]",
        help="Topics, or some of their partitions.",
        show_default=False,
        autocompletion=complete_topic,
    ),
]
OptionalPartitions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC[:PARTITION,...]",
        help="Topics, or some of their partitions; default: all.",
        show_default=False,
        autocompletion=complete_topic,
    ),
]
