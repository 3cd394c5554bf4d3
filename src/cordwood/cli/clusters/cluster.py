"""`cordwood cluster`: the brokers, controllers and features of a cluster."""

from enum import Enum
from typing import Annotated, Any

import typer

from cordwood.cli.clusters.quorum import lag, log_end, quorum_json, replicas
from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.output import print_facts, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import ClusterDescription, FeatureLevels, Quorum
from cordwood.client.errors import BrokerError, UnsupportedByBroker

app = typer.Typer(add_completion=False)


class Verb(Enum):
    DESCRIBE = "describe"


@app.command(epilog="Examples:\n\ncordwood cluster describe\n\ncordwood cluster --bootstrap broker1:9092 --json")
@reaching_cluster
def cluster(
    access: Access,
    _verb: Annotated[Verb, typer.Argument(metavar="[describe]", help="May be left out.", show_default=False)] = (
        Verb.DESCRIBE
    ),
    as_json: AsJson = False,
) -> None:
    """Show a cluster: its id, brokers (fenced ones too), controllers, features and quorum."""
    described, features, quorum = run(access, _describe)
    if as_json:
        print_json(_as_json(described, features, quorum))
    else:
        _print(described, features, quorum)


async def _describe(admin: Admin) -> tuple[ClusterDescription, list[FeatureLevels], Quorum | None]:
    try:
        described = await admin.describe_cluster(include_fenced=True)
    except UnsupportedByBroker:
        described = await admin.describe_cluster()
    try:
        quorum = await admin.describe_metadata_quorum()
    except (UnsupportedByBroker, BrokerError):
        # Brokers before KRaft have no quorum, and a client may lack the permission to ask for it.
        quorum = None
    return described, await admin.describe_features(), quorum


def _print(described: ClusterDescription, features: list[FeatureLevels], quorum: Quorum | None) -> None:
    facts: list[tuple[str, Any]] = [("cluster", described.id)]
    if quorum is None:
        facts.append(("controller", described.controller))
    else:
        facts += [
            ("controller", quorum.leader),
            ("controller epoch", quorum.leader_epoch),
            ("metadata offset", quorum.high_watermark),
        ]
    print_facts(facts)
    print_table(
        ("id", "address", "rack", "fenced"),
        [(broker.id, str(broker.address), broker.rack, broker.id in described.fenced) for broker in described.brokers],
        title="Brokers",
        kind="broker",
    )
    print_table(
        ("name", "level", "supported"),
        [(feature.name, feature.finalized, f"{feature.min_supported}-{feature.max_supported}") for feature in features],
        title="Features",
        kind="feature",
    )
    if quorum is not None:
        print_table(
            ("id", "address"),
            [(node_id, ",".join(map(str, addresses))) for node_id, addresses in sorted(quorum.controllers.items())],
            title="Controllers",
            kind="controller",
        )
        print_table(
            ("node", "role", "log end", "lag"),
            [(node.id, role, log_end(node), lag(quorum, node)) for role, node in replicas(quorum)],
            title="Quorum",
            kind="quorum",
        )


def _as_json(described: ClusterDescription, features: list[FeatureLevels], quorum: Quorum | None) -> dict[str, Any]:
    return {
        "clusterId": described.id,
        "controllerId": quorum.leader if quorum is not None else described.controller,
        "brokers": [
            {
                "id": broker.id,
                "host": broker.address.host,
                "port": broker.address.port,
                "rack": broker.rack,
                "fenced": broker.id in described.fenced,
            }
            for broker in described.brokers
        ],
        "controllers": []
        if quorum is None
        else [
            {"id": node_id, "addresses": [str(address) for address in addresses]}
            for node_id, addresses in sorted(quorum.controllers.items())
        ],
        "features": [
            {
                "name": feature.name,
                "level": feature.finalized,
                "minSupported": feature.min_supported,
                "maxSupported": feature.max_supported,
            }
            for feature in features
        ],
        "quorum": None if quorum is None else quorum_json(quorum),
    }
