"""`cordwood topic`: create, list, describe, alter, offsets, trim, delete."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.assignments import parse_changes, parse_pairs
from cordwood.cli.framework.completion import complete_topic, complete_topic_assignment, complete_topic_setting
from cordwood.cli.framework.hints import warn_of_unknown_settings
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.cli.terminal.progress import progress
from cordwood.cli.topics.topic_choice import choose_topics, choose_visible, is_internal
from cordwood.cli.topics.topic_description import PartitionFilter, describe_topics, print_descriptions, print_matches
from cordwood.cli.topics.topic_records import offsets, trim
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import AlterOperation, ConfigChange, ConfigResource, ConfigResourceType
from cordwood.client.admin.results import failures_of, settled
from cordwood.client.admin.topics import CreatedTopic, NewTopic
from cordwood.client.cluster import Topic
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid, uuid_from_text, uuid_text

app = typer.Typer(
    help="Create, list, describe, alter, trim and delete topics.", no_args_is_help=True, add_completion=False
)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topic names.", show_default=False)]
Patterns = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC", help="Names, or patterns such as 'test-*'.", show_default=False, autocompletion=complete_topic
    ),
]
OptionalPatterns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC", help="Names, or patterns such as 'test-*'.", show_default=False, autocompletion=complete_topic
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Internal = Annotated[
    bool,
    typer.Option("--internal", help="Include internal topics, such as __consumer_offsets and those of the Spark sink."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Validate only; change nothing.")]

# A request with many topics takes long; smaller ones show progress and stay within the request's timeout.
_TOPICS_PER_REQUEST = 100


@app.command(
    epilog="Examples:\n\n"
    "cordwood topic create orders --partitions 6\n\n"
    "cordwood topic create orders --set retention.ms=3600000 --set cleanup.policy=compact,delete\n\n"
    "cordwood topic create orders --replicas 1:2 --replicas 2:3"
)
@reaching_cluster
def create(
    access: Access,
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="Number of partitions; default: the cluster's num.partitions."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            help="Replication factor; default: the cluster's default.replication.factor.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A topic's setting; may be repeated.",
            autocompletion=complete_topic_assignment,
        ),
    ] = None,
    replicas: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID:ID...", help="The brokers of one partition, its leader first; once for each partition."
        ),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create topics, and wait until their partitions have leaders."""
    if replicas and (partitions is not None or replication_factor is not None):
        raise typer.BadParameter("already determines the number of partitions and replicas", param_hint="--replicas")
    configs = parse_pairs(settings or [], "--set")
    assignment = [_parse_replicas(text) for text in replicas or []]
    topics = [
        NewTopic(name, partitions or -1, replication_factor or -1, configs, assignment) for name in dict.fromkeys(names)
    ]
    results = run(access, partial(_create, topics=topics, dry_run=dry_run))
    failures = []
    created = []
    for result in results:
        if isinstance(result, CreatedTopic):
            created.append(result)
        elif not (if_not_exists and result.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            failures.append(result)
    if as_json:
        print_json([_created_as_json(topic) for topic in created])
    else:
        for topic in created:
            note(f"{'would create' if dry_run else 'created'} {_told(topic)}")
    end_with(failures)


@app.command("list", epilog="Examples:\n\ncordwood topic list\n\ncordwood topic list 'order*' --json")
@reaching_cluster
def list_topics(
    access: Access, patterns: OptionalPatterns = None, internal: Internal = False, as_json: AsJson = False
) -> None:
    """List topics: a table on a terminal, one name a line in a pipe."""
    topics = choose_visible(run(access, partial(Admin.list_topics, internal=True)), patterns or [], internal)
    if as_json:
        print_json([_listed_as_json(topic) for topic in topics])
    elif not sys.stdout.isatty():
        for topic in topics:
            print(topic.name)
    else:
        print_table(
            ("topic", "partitions", "replicas", "id"),
            [(topic.name, len(topic.partitions), _replication(topic), uuid_text(topic.id)) for topic in topics],
        )


@app.command(
    epilog="Examples:\n\ncordwood topic describe orders\n\ncordwood topic describe 'order*' --json\n\n"
    "cordwood topic describe --id wzHS1cvJRnyhmDs_9HPfNg\n\n"
    "cordwood topic describe --internal --under-replicated --unavailable"
)
@reaching_cluster
def describe(
    access: Access,
    patterns: OptionalPatterns = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="A topic id, as describe shows it; may be repeated.")
    ] = None,
    internal: Internal = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica that is not in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr", help="Only those with fewer in-sync replicas than min.insync.replicas: acks=all fails."
        ),
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="Only partitions that are exactly at min.insync.replicas.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only those without a live leader.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show topics with their partitions (leader, replicas, offsets) and the settings that are not defaults.

    With --under-replicated and the like, show only the partitions that match one of them, in one table.
    """
    known_ids = [_parse_id(text) for text in ids or []]
    wanted = {
        PartitionFilter.UNDER_REPLICATED: under_replicated,
        PartitionFilter.UNDER_MIN_ISR: under_min_isr,
        PartitionFilter.AT_MIN_ISR: at_min_isr,
        PartitionFilter.UNAVAILABLE: unavailable,
    }
    filters = [each for each, is_wanted in wanted.items() if is_wanted]

    async def work(admin: Admin) -> list[dict[str, Any]]:
        by_id = (await admin.describe_topics_by_id(known_ids)).values() if known_ids else ()
        topics = await choose_topics(admin, [*(patterns or []), *(topic.name for topic in by_id)], internal)
        return await describe_topics(admin, topics, filters)

    described = run(access, work)
    if as_json:
        print_json(described)
    elif filters:
        print_matches(described)
        if not described:
            note("no such partition")
    else:
        print_descriptions(described)


@app.command(
    epilog="Examples:\n\n"
    "cordwood topic alter orders --partitions 12\n\n"
    "cordwood topic alter orders --set retention.ms=60000 --unset cleanup.policy\n\n"
    "cordwood topic alter orders --set cleanup.policy+=compact"
)
@reaching_cluster
def alter(
    access: Access,
    patterns: Patterns,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="New total number of partitions.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set; += and -= add to or remove from a list. Repeatable.",
            autocompletion=complete_topic_assignment,
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(
            "--unset",
            metavar="NAME",
            help="Reset to the default; may be repeated.",
            autocompletion=complete_topic_setting,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions to topics, or change their settings."""
    changes = parse_changes(settings or [], "--set")
    changes += [ConfigChange(name, AlterOperation.DELETE) for name in unset or []]
    if partitions is None and not changes:
        raise typer.BadParameter("nothing to alter: give --partitions, --set or --unset", param_hint="TOPIC")
    run(access, partial(_alter, patterns=patterns, partitions=partitions, changes=changes, dry_run=dry_run))
    warn_of_unknown_settings(ConfigResourceType.TOPIC, unset or [])


app.command(
    "offsets",
    epilog="Examples:\n\ncordwood topic offsets orders\n\ncordwood topic offsets orders:0 --at max-timestamp --at @-1h",
)(offsets)
app.command(
    "trim",
    epilog="Examples:\n\n"
    "cordwood topic trim orders --to @-7d --dry-run\n\n"
    "cordwood topic trim orders:0 --to 1200\n\n"
    "cordwood topic trim test --to latest --yes",
)(trim)


@app.command(epilog="Examples:\n\ncordwood topic delete orders\n\ncordwood topic delete 'test-*' --yes")
@reaching_cluster
def delete(
    access: Access,
    patterns: Patterns,
    yes: YesDelete = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore missing ones.")] = False,
) -> None:
    """Delete topics with all their records. Patterns do not match internal topics, which must be named."""

    async def choose(admin: Admin) -> list[str]:
        return [topic.name for topic in await choose_topics(admin, patterns, internal=False, missing_ok=if_exists)]

    names = run(access, choose)
    if not names:
        return
    confirm_deletion(shortened(names), yes)
    end_with(run(access, partial(_delete, names=names)))


async def _create(admin: Admin, topics: Sequence[NewTopic], dry_run: bool) -> list[CreatedTopic | BrokerError]:
    results: list[CreatedTopic | BrokerError] = []
    with progress("creating", len(topics), wanted=len(topics) > _TOPICS_PER_REQUEST, unit="topics") as update:
        for some in _portions(topics):
            told = await settled(admin.create_topics(some, validate_only=dry_run))
            results += [told[topic.name] for topic in some]
            update(len(results), len(results))
    if not dry_run:
        await admin.until_topics_led([result.name for result in results if isinstance(result, CreatedTopic)])
    return results


async def _alter(
    admin: Admin, patterns: Sequence[str], partitions: int | None, changes: Sequence[ConfigChange], dry_run: bool
) -> None:
    names = [topic.name for topic in await choose_topics(admin, patterns, internal=False)]
    # Reject before anything is changed.
    if partitions is not None:
        await admin.create_partitions(dict.fromkeys(names, partitions), validate_only=dry_run)
        if not dry_run:
            await admin.until_topics_led(names, partitions)
    if changes:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        await admin.incremental_alter_configs(dict.fromkeys(resources, changes), validate_only=dry_run)


async def _delete(admin: Admin, names: Sequence[str]) -> list[BrokerError]:
    failures: list[BrokerError] = []
    deleted: list[str] = []
    with progress("deleting", len(names), wanted=len(names) > _TOPICS_PER_REQUEST, unit="topics") as update:
        for some in _portions(names):
            failed = await failures_of(admin.delete_topics(some))
            failures += failed.values()
            deleted += [name for name in some if name not in failed]
            update(len(deleted), len(deleted))
        await admin.until_topics_gone(deleted)
    for name in deleted:
        note(f"deleted {name}")
    return failures


def _portions(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + _TOPICS_PER_REQUEST] for start in range(0, len(items), _TOPICS_PER_REQUEST)]


def _parse_replicas(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(":")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of broker ids separated by colons, such as 1:2:3", param_hint="--replicas"
        ) from None


def _parse_id(text: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--id") from error


def _told(topic: CreatedTopic) -> str:
    if topic.partitions < 0:
        return topic.name
    return f"{topic.name}: {counted(topic.partitions, 'partition')}, replication factor {topic.replication_factor}"


def _created_as_json(topic: CreatedTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topicId": uuid_text(topic.id),
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
    }


def _listed_as_json(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topicId": uuid_text(topic.id),
        "internal": is_internal(topic),
        "partitions": len(topic.partitions),
        "replicationFactor": _replication(topic),
    }


def _replication(topic: Topic) -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)
