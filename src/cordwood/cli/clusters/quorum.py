"""`cordwood quorum`: the controllers that vote on the metadata, and those that only follow it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.output import note, print_facts, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import ClusterDescription, Quorum, QuorumReplica
from cordwood.client.errors import BrokerError
from cordwood.config.errors import ConfigError
from cordwood.config.quorum import parse_initial_controllers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import uuid_text

app = typer.Typer(
    help="Show the metadata quorum, add and remove its controllers.", no_args_is_help=True, add_completion=False
)


@app.command(epilog="Examples:\n\ncordwood quorum status\n\ncordwood quorum status --json")
@reaching_cluster
def status(access: Access, as_json: AsJson = False) -> None:
    """Show the quorum's leader, and how far each voter and observer is."""

    async def work(admin: Admin) -> tuple[ClusterDescription, Quorum]:
        return await admin.describe_cluster(), await admin.describe_metadata_quorum()

    described, quorum = run(access, work)
    if as_json:
        print_json({"clusterId": described.id, **quorum_json(quorum)})
        return
    print_facts(
        [
            ("cluster", described.id),
            ("leader", quorum.leader),
            ("leader epoch", quorum.leader_epoch),
            ("high watermark", quorum.high_watermark),
        ]
    )
    print_table(
        ("node", "role", "log end", "lag", "last fetch", "last caught up", "directory", "address"),
        [
            (
                replica.id,
                role,
                log_end(replica),
                lag(quorum, replica),
                _time(replica.last_fetch_ms),
                _time(replica.last_caught_up_ms),
                uuid_text(replica.directory_id),
                ",".join(map(str, quorum.controllers.get(replica.id, ()))) or None,
            )
            for role, replica in replicas(quorum)
        ],
        title="Replicas",
        kind="replica",
    )


@app.command(epilog="Examples:\n\ncordwood quorum add 4@controller4:9093:JEXY6aqzQY-32P5TStzaFg")
@reaching_cluster
def add(
    access: Access,
    controller: Annotated[
        str,
        typer.Argument(
            metavar="ID@HOST:PORT:DIRECTORY-ID",
            help="The controller, and the directory.id in the meta.properties of its metadata directory.",
            show_default=False,
        ),
    ],
    listener: Annotated[str, typer.Option(metavar="NAME", help="The name of its controller listener.")] = "CONTROLLER",
    as_json: AsJson = False,
) -> None:
    """Make a controller a voter. It must be running, formatted with --no-initial-controllers, and caught up."""
    try:
        (voter,) = parse_initial_controllers(controller)
    except (ConfigError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="ID@HOST:PORT:DIRECTORY-ID") from error

    async def work(admin: Admin) -> None:
        await admin.add_raft_voter(voter.node_id, voter.directory_id, {listener.upper(): voter.address})

    run(access, work)
    if as_json:
        print_json({"id": voter.node_id, "directoryId": uuid_text(voter.directory_id), "isVoter": True})
    else:
        note(f"controller {voter.node_id} is a voter now")


@app.command(epilog="Examples:\n\ncordwood quorum remove 4")
@reaching_cluster
def remove(
    access: Access,
    node_id: Annotated[int, typer.Argument(metavar="ID", min=0, help="Id of the controller.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Take a controller out of the voters; it follows as an observer until it is stopped."""

    async def work(admin: Admin) -> QuorumReplica:
        quorum = await admin.describe_metadata_quorum()
        found = next((voter for voter in quorum.voters if voter.id == node_id), None)
        if found is None:
            voters = ", ".join(str(voter.id) for voter in quorum.voters)
            raise BrokerError(ErrorCode.VOTER_NOT_FOUND, f"the voters are {voters}", f"controller {node_id}")
        await admin.remove_raft_voter(node_id, found.directory_id)
        return found

    removed = run(access, work)
    if as_json:
        print_json({"id": node_id, "directoryId": uuid_text(removed.directory_id), "isVoter": False})
    else:
        note(f"controller {node_id} is no longer a voter")


def quorum_json(quorum: Quorum) -> dict[str, Any]:
    return {
        "leaderId": quorum.leader,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "replicas": [
            {
                "id": replica.id,
                "role": role,
                "directoryId": uuid_text(replica.directory_id),
                "logEndOffset": log_end(replica),
                "lag": lag(quorum, replica),
                "lastFetchTimestamp": replica.last_fetch_ms,
                "lastCaughtUpTimestamp": replica.last_caught_up_ms,
            }
            for role, replica in replicas(quorum)
        ],
    }


def replicas(quorum: Quorum) -> list[tuple[str, QuorumReplica]]:
    """Returns the leader, then the other voters, then the observers."""
    voters = sorted(quorum.voters, key=lambda voter: (voter.id != quorum.leader, voter.id))
    return [("leader" if voter.id == quorum.leader else "follower", voter) for voter in voters] + [
        ("observer", observer) for observer in sorted(quorum.observers, key=lambda observer: observer.id)
    ]


def log_end(replica: QuorumReplica) -> int | None:
    """None for a voter that this leader has not heard from."""
    return None if replica.log_end_offset < 0 else replica.log_end_offset


def lag(quorum: Quorum, replica: QuorumReplica) -> int | None:
    """Records of the metadata log that the replica is behind the leader; None if its log end is unknown."""
    if replica.log_end_offset < 0:
        return None
    end = next((voter.log_end_offset for voter in quorum.voters if voter.id == quorum.leader), quorum.high_watermark)
    return max(0, end - replica.log_end_offset)


def _time(time_ms: int | None) -> str | None:
    if time_ms is None or time_ms < 0:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
