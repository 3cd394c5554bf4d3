"""`cordwood leader`: electing leaders of partitions."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson, OptionalPartitions
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import ElectionType
from cordwood.client.cluster import PartitionInfo, Topic, TopicPartition
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

_PATIENCE_S = 5.0
_POLL_S = 0.02

app = typer.Typer(help="Elect leaders of partitions.", no_args_is_help=True, add_completion=False)


@app.callback()
def leader() -> None:
    """Elect leaders of partitions."""


@app.command(
    epilog="Examples:\n\n"
    "cordwood leader elect --all\n\n"
    "cordwood leader elect orders:0,1 bills\n\n"
    "cordwood leader elect orders:3 --unclean"
)
@reaching_cluster
def elect(
    access: Access,
    topics: OptionalPartitions = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All partitions of all topics.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="If no in-sync replica is alive, elect any live one. Records that it has not replicated are lost.",
        ),
    ] = False,
    yes: YesDelete = False,
    as_json: AsJson = False,
) -> None:
    """Give leadership back to preferred replicas, the first of each partition. Prints where a leader was elected."""
    if bool(topics) == everything:
        raise typer.BadParameter("name topics, or give --all", param_hint="TOPIC")
    choices = parse_partition_choices(topics or [], "TOPIC")

    async def choose(admin: Admin) -> list[TopicPartition] | None:
        return await chosen_partitions(admin, choices) if choices else None

    partitions = run(access, choose)
    if unclean:
        names = "all partitions" if partitions is None else shortened([str(each) for each in partitions])
        confirm_deletion(f"records that no live replica has, of {names}", yes)

    async def work(admin: Admin) -> tuple[list[tuple[TopicPartition, int]], list[ClientError]]:
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        failed: dict[TopicPartition, BrokerError] = {}
        before = await admin.client.topics({each.topic for each in partitions or ()})
        try:
            elected = await admin.elect_leaders(partitions, election=election)
        except BrokerError as error:
            if not error.outcomes:
                raise
            # Report the others even if some failed.
            elected = [partition for partition, outcome in error.outcomes.items() if outcome is None]
            failed = {partition: outcome for partition, outcome in error.outcomes.items() if outcome is not None}
        known = await topics_once_elected(admin, elected, {each.topic for each in failed}, before)
        leaders = [(each, known[each.topic].partitions[each.partition].leader) for each in elected]
        # Don't use Metadata, which may still name a broker that failed a moment ago.
        live = {broker.id for broker in (await admin.describe_cluster()).brokers}
        return leaders, [
            _explained(each, error, known[each.topic].partitions[each.partition], live)
            for each, error in failed.items()
        ]

    elected, failures = run(access, work)
    if as_json:
        print_json([{"topic": each.topic, "partition": each.partition, "leader": broker} for each, broker in elected])
    else:
        print_table(("topic", "partition", "leader"), [(*each, broker) for each, broker in elected])
    if elected:
        note(f"elected the {'leader' if len(elected) == 1 else 'leaders'} of {counted(len(elected), 'partition')}")
    elif not failures:
        note("every partition has a leader" if unclean else "every partition is led by its preferred leader")
    end_with(failures)


async def topics_once_elected(
    admin: Admin, elected: Collection[TopicPartition], others: Collection[str], before: Mapping[str, Topic]
) -> dict[str, Topic]:
    """Topics with the leaders that were elected: a broker may answer before it has applied the election itself."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        known = await admin.client.topics({*others, *(each.topic for each in elected)})
        changes = [(_partition_of(before, each), _partition_of(known, each)) for each in elected]
        is_applied = all(
            now is not None and now.leader >= 0 and (was is None or now.leader_epoch > was.leader_epoch)
            for was, now in changes
        )
        if is_applied or time.monotonic() >= deadline_s:
            return known
        await asyncio.sleep(_POLL_S)


def _partition_of(topics: Mapping[str, Topic], partition: TopicPartition) -> PartitionInfo | None:
    topic = topics.get(partition.topic)
    return None if topic is None else topic.partitions[partition.partition]


def _explained(
    partition: TopicPartition, error: BrokerError, state: PartitionInfo, live: Collection[int]
) -> ClientError:
    replicas = ", ".join(map(str, state.replicas))
    if error.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE and state.replicas:
        preferred = state.replicas[0]
        why = "is not in sync yet" if preferred in live else "is down"
        now = f"broker {state.leader} still leads it" if state.leader >= 0 else "it has no leader"
        return ClientError(f"{partition}: its preferred leader, broker {preferred}, {why}; {now}")
    if error.code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE:
        return ClientError(f"{partition}: none of its replicas is alive: start one of the brokers {replicas}")
    return error
