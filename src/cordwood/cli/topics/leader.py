"""`cordwood leader`: electing leaders of partitions."""

from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson, OptionalPartitions
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion, shortened
from cordwood.cli.terminal.output import note, print_json, print_table
from cordwood.cli.topics.partition_choice import chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.partitions import ElectionType
from cordwood.client.cluster import TopicPartition

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
            "--unclean", help="If no in-sync replica is alive, elect any live one. Records that it lacks are lost."
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

    async def work(admin: Admin) -> list[tuple[TopicPartition, int]]:
        election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        elected = await admin.elect_leaders(partitions, election=election)
        known = await admin.client.topics({each.topic for each in elected})
        return [(each, known[each.topic].partitions[each.partition].leader) for each in elected]

    elected = run(access, work)
    if as_json:
        print_json([{"topic": each.topic, "partition": each.partition, "leader": broker} for each, broker in elected])
        return
    print_table(("topic", "partition", "leader"), [(*each, broker) for each, broker in elected])
    if not elected:
        note("every partition is led by its preferred leader")
