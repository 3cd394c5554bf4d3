"""`cordwood broker`: lists the nodes of a cluster, drains one, and unregisters a dead one."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, end_with, fail, reaching_cluster, run
from cordwood.cli.framework.completion import complete_broker
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.moves.cluster_state import ClusterState, cluster_state
from cordwood.cli.moves.draining import drain as drain_brokers
from cordwood.cli.moves.draining import drain_plan
from cordwood.cli.moves.plan_output import print_plan
from cordwood.cli.moves.planner import Impossible, Move
from cordwood.cli.terminal.consent import Yes, YesDelete, confirm, confirm_deletion
from cordwood.cli.terminal.output import counted, note, print_json, print_table, warn
from cordwood.cli.topics.reassign import Throttle, allowed_brokers, given_rate
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import ClusterDescription
from cordwood.client.errors import ClientError

app = typer.Typer(help="List, drain and unregister brokers.", no_args_is_help=True, add_completion=False)


@app.command(
    "list",
    epilog="Examples:\n\ncordwood broker list\n\ncordwood broker list --replicas\n\n"
    "cordwood broker list --fenced --json",
)
@reaching_cluster
def list_brokers(
    access: Access,
    fenced: Annotated[bool, typer.Option("--fenced", help="Include fenced brokers (Kafka 4.0 or later).")] = False,
    controllers: Annotated[
        bool, typer.Option("--controllers", help="List controllers instead (Kafka 3.9 or later).")
    ] = False,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Also count each broker's replicas, and the partitions that it leads.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List brokers: id, address, rack, whether it is fenced."""
    if controllers and replicas:
        raise typer.BadParameter("controllers have no replicas of topics", param_hint="--replicas")

    async def work(admin: Admin) -> tuple[ClusterDescription, Counter[int], Counter[int]]:
        described = await (
            admin.describe_controllers() if controllers else admin.describe_cluster(include_fenced=fenced)
        )
        topics = (await admin.list_topics(internal=True)).values() if replicas else ()
        partitions = [partition for topic in topics for partition in topic.partitions]
        held = Counter(broker for partition in partitions for broker in partition.replicas)
        return described, held, Counter(partition.leader for partition in partitions)

    described, held, led = run(access, work)
    if as_json:
        print_json(
            [
                {
                    "id": node.id,
                    "host": node.address.host,
                    "port": node.address.port,
                    "rack": node.rack,
                    "fenced": node.id in described.fenced,
                    **({"replicas": held[node.id], "leaders": led[node.id]} if replicas else {}),
                }
                for node in described.brokers
            ]
        )
    else:
        counts = ("replicas", "leaders") if replicas else ()
        print_table(
            ("id", "address", "rack", "fenced", *counts),
            [
                (
                    node.id,
                    str(node.address),
                    node.rack,
                    node.id in described.fenced,
                    *((held[node.id], led[node.id]) if replicas else ()),
                )
                for node in described.brokers
            ],
        )


@app.command(
    epilog="Examples:\n\n"
    "cordwood broker drain 3 --dry-run\n\n"
    "cordwood broker drain 3 --throttle 50M\n\n"
    "cordwood broker drain 3 --to 4 --yes"
)
@reaching_cluster
def drain(
    access: Access,
    broker_ids: Annotated[
        list[int],
        typer.Argument(metavar="ID", min=0, help="Ids of brokers.", show_default=False, autocompletion=complete_broker),
    ],
    to: Annotated[
        list[int] | None,
        typer.Option(
            "--to",
            metavar="ID",
            min=0,
            help="Move replicas only there; may be repeated. Default: all other brokers.",
            autocompletion=complete_broker,
        ),
    ] = None,
    throttle: Throttle = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move; change nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Move all replicas away from brokers: leaders first, then the data, until nothing is left there.

    Nothing begins where it could not end: with too few other brokers for a topic's replication factor, disks that are
    too small, or no live replica to copy from.
    """
    rate = given_rate(throttle)

    async def look(admin: Admin) -> tuple[ClusterState, list[int], list[Move]]:
        state = await cluster_state(admin)
        targets = _targets(state, broker_ids, to)
        return state, targets, await drain_plan(admin, broker_ids, targets, state)

    try:
        state, targets, moves = run(access, look)
        if dry_run:
            print_plan(state, moves)
            return
        if moves:
            print_plan(state, moves)
            size = counted(state.bytes_of(moves), "byte")
            confirm(f"Move {counted(len(moves), 'partition')} ({size}) away from {_named(broker_ids)}?", yes)

        async def work(admin: Admin) -> list[ClientError]:
            return await drain_brokers(admin, broker_ids, targets, rate)

        end_with(run(access, work))
    except Impossible as error:
        fail(f"{_named(broker_ids)} cannot be drained: {error}")
    note(f"{_named(broker_ids)} {'have' if len(broker_ids) > 1 else 'has'} no replicas any more")
    run(access, lambda admin: _warn_of_voters(admin, broker_ids))


@app.command(epilog="Examples:\n\ncordwood broker unregister 3\n\ncordwood broker unregister 3 --yes")
@reaching_cluster
def unregister(
    access: Access,
    broker_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="Id of the broker.", show_default=False)],
    yes: YesDelete = False,
) -> None:
    """Have the cluster forget a broker that is stopped and will not come back."""
    confirm_deletion(f"the registration of broker {broker_id}", yes)

    async def work(admin: Admin) -> None:
        await admin.unregister_broker(broker_id)

    run(access, work)
    note(f"unregistered broker {broker_id}")


def _targets(state: ClusterState, drained: Sequence[int], to: Sequence[int] | None) -> list[int]:
    """Brokers that the replicas may move to. Raises `Impossible`."""
    for broker in to or ():
        if broker in drained:
            raise Impossible(f"--to {broker} is itself to be drained")
    if to is not None:
        allowed_brokers(state, [*drained, *state.fenced])
        return list(allowed_brokers(state, [], to))
    # Brokers that are down accept no replicas; don't wait for them.
    return list(allowed_brokers(state, [*drained, *state.fenced]))


async def _warn_of_voters(admin: Admin, broker_ids: Sequence[int]) -> None:
    try:
        quorum = await admin.describe_metadata_quorum()
    except ClientError:
        return
    for broker in broker_ids:
        if broker in [voter.id for voter in quorum.voters]:
            warn(
                f"node {broker} is also a voter of the metadata quorum: before it goes for good, "
                f"cordwood quorum remove {broker}"
            )


def _named(broker_ids: Sequence[int]) -> str:
    return f"broker{'s' if len(broker_ids) > 1 else ''} {', '.join(map(str, broker_ids))}"
