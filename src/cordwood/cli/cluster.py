"""`cordwood cluster`: what a cluster is made of."""

from typing import Annotated, Any

import typer

from cordwood.cli.access import Access, reaching_cluster, run
from cordwood.cli.output import print_facts, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import (
    ClusterDescription,
    FeatureLevels,
    Quorum,
    QuorumReplica,
)
from cordwood.client.errors import BrokerError, UnsupportedByBroker
from cordwood.wire.primitives import uuid_text

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples:\n\ncordwood cluster\n\ncordwood cluster --bootstrap broker1:9092,broker2:9092 --json")
@reaching_cluster
def cluster(
    access: Access, as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
) -> None:
    """Show a cluster: its id, brokers, features and quorum of controllers."""
    described, features, quorum = run(access, _describe)
    if as_json:
        print_json(_as_json(described, features, quorum))
    else:
        _print(described, features, quorum)


async def _describe(admin: Admin) -> tuple[ClusterDescription, list[FeatureLevels], Quorum | None]:
    described = await admin.describe_cluster()
    try:
        quorum = await admin.describe_metadata_quorum()
    except (UnsupportedByBroker, BrokerError):
        # Brokers before KRaft have none, and not everybody may ask for it.
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
            ("node", "role", "log end", "lag"),
            [(node.id, role, node.log_end_offset, _lag(quorum, node)) for role, node in _replicas(quorum)],
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
        "features": [
            {
                "name": feature.name,
                "level": feature.finalized,
                "minSupported": feature.min_supported,
                "maxSupported": feature.max_supported,
            }
            for feature in features
        ],
        "quorum": None
        if quorum is None
        else {
            "leaderId": quorum.leader,
            "leaderEpoch": quorum.leader_epoch,
            "highWatermark": quorum.high_watermark,
            "replicas": [
                {
                    "id": replica.id,
                    "role": role,
                    "directoryId": uuid_text(replica.directory_id),
                    "logEndOffset": replica.log_end_offset,
                    "lag": _lag(quorum, replica),
                    "lastFetchTimestamp": replica.last_fetch_ms,
                    "lastCaughtUpTimestamp": replica.last_caught_up_ms,
                }
                for role, replica in _replicas(quorum)
            ],
        },
    }


def _replicas(quorum: Quorum) -> list[tuple[str, QuorumReplica]]:
    """Leader, other voters, observers."""
    voters = sorted(quorum.voters, key=lambda voter: (voter.id != quorum.leader, voter.id))
    return [("leader" if voter.id == quorum.leader else "follower", voter) for voter in voters] + [
        ("observer", observer) for observer in sorted(quorum.observers, key=lambda observer: observer.id)
    ]


def _lag(quorum: Quorum, replica: QuorumReplica) -> int:
    """Behind the leader, in records of the metadata log."""
    end = next((voter.log_end_offset for voter in quorum.voters if voter.id == quorum.leader), quorum.high_watermark)
    return max(0, end - replica.log_end_offset)
