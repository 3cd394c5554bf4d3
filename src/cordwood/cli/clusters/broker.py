"""`cordwood broker`: the nodes of a cluster, and forgetting one that is gone."""

from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import note, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import ClusterDescription

app = typer.Typer(help="List brokers, and unregister dead ones.", no_args_is_help=True, add_completion=False)


@app.command("list", epilog="Examples:\n\ncordwood broker list\n\ncordwood broker list --fenced --json")
@reaching_cluster
def list_brokers(
    access: Access,
    fenced: Annotated[bool, typer.Option("--fenced", help="Include fenced brokers (Kafka 4.0 or later).")] = False,
    controllers: Annotated[
        bool, typer.Option("--controllers", help="List controllers instead (Kafka 3.9 or later).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List brokers: id, address, rack, whether it is fenced."""

    async def work(admin: Admin) -> ClusterDescription:
        return await (admin.describe_controllers() if controllers else admin.describe_cluster(include_fenced=fenced))

    described = run(access, work)
    if as_json:
        print_json(
            [
                {
                    "id": node.id,
                    "host": node.address.host,
                    "port": node.address.port,
                    "rack": node.rack,
                    "fenced": node.id in described.fenced,
                }
                for node in described.brokers
            ]
        )
    else:
        print_table(
            ("id", "address", "rack", "fenced"),
            [(node.id, str(node.address), node.rack, node.id in described.fenced) for node in described.brokers],
        )


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
