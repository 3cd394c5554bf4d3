"""Administrative commands without their own file: on a cluster, or with scripted brokers."""

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cordwood.cli.commands import app
from cordwood.client.admin.admin import Admin
from cordwood.wire.messages import alter_client_quotas as altering
from cordwood.wire.messages import alter_partition_reassignments as reassigning
from cordwood.wire.messages import create_acls, delete_acls, describe_acls
from cordwood.wire.messages import describe_client_quotas as quotas
from cordwood.wire.messages import describe_delegation_token as tokens
from cordwood.wire.messages import describe_user_scram_credentials as scram
from cordwood.wire.messages import list_partition_reassignments as moves
from cordwood.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from cordwood.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from cordwood.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from cordwood.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tests.cli.cli_fixtures import READY
from tests.cli.cli_runner import Cli, Done, until
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers

DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"
cordwood_only = pytest.mark.skipif(os.environ.get("CORDWOOD_TEST_KAFKA") is not None, reason="of our own node")

Run = Callable[..., Done]


def scripted(
    work: Callable[[ScriptedBroker, Callable[..., Coroutine[Any, Any, Done]]], Coroutine[Any, Any, None]],
) -> None:
    """Runs commands against a broker that answers as the test says."""

    async def main() -> None:
        async with asyncio.timeout(60), scripted_brokers() as [broker]:
            cli = Cli(str(broker.address))

            async def run(*arguments: str, stdin: bytes = b"", fails: int = 0) -> Done:
                return await asyncio.to_thread(cli, *arguments, stdin=stdin, fails=fails)

            await work(broker, run)

    asyncio.run(main())


# ---- records


def test_records_before_a_place_are_deleted(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "2")
    cli("produce", topic, "-p", "0", stdin=b"a\nb\nc\nd\n")
    cli("produce", topic, "-p", "1", stdin=b"x\n")
    assert cli("topic", "trim", f"{topic}:0", "--to", "3", "--dry-run").lines == [f"{topic}\t0\t0\t3"]
    refused = cli("topic", "trim", topic, "--to", "-1", fails=2).stderr
    assert refused.startswith(f"cordwood: this would delete 3 records of {topic}-0; there is no terminal")
    assert cli("consume", topic, "-p", "0").lines == ["a", "b", "c", "d"]
    assert cli("topic", "trim", topic, "--to", "-1", "--yes").lines == [f"{topic}\t0\t0\t3"]
    assert sorted(cli("consume", topic).lines) == ["d", "x"]
    assert "begins at 3 and ends at 4" in cli("topic", "trim", f"{topic}:0", "--to", "9", "--yes", fails=2).stderr
    assert "is not a position in a partition" in cli("topic", "trim", topic, "--to", "soon", "--yes", fails=2).stderr
    assert cli("topic", "trim", topic, "--to", "latest", "--yes", "--json").json == [
        {"topic": topic, "partition": 0, "startOffset": 3, "newStartOffset": 4},
        {"topic": topic, "partition": 1, "startOffset": 0, "newStartOffset": 1},
    ]
    assert cli("topic", "trim", topic, "--to", "latest", "--yes").lines == []


def test_offsets_of_partitions_are_shown(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "2")
    cli("produce", topic, "-p", "1", stdin=b"a\nb\n")
    cli("topic", "trim", f"{topic}:1", "--to", "1", "--yes")
    assert cli("topic", "offsets", topic).lines == [f"{topic}\t0\t0\t0", f"{topic}\t1\t1\t2"]
    assert cli("topic", "offsets", f"{topic}:1", "--at", "@-1h", "--at", "latest", "--json").json == [
        {"topic": topic, "partition": 1, "offsets": {"@-1h": 1, "latest": 2}}
    ]
    assert cli("topic", "offsets", f"{topic}:0", "--at", "max-timestamp").lines == [f"{topic}\t0\t-"]
    assert (
        "'middle' is not one of latest, earliest, max-timestamp"
        in cli("topic", "offsets", topic, "--at", "middle", fails=2).stderr
    )


# ---- directories


@pytest.fixture
def two_directories(tmp_path: Path) -> Iterator[tuple[Cli, list[str]]]:
    paths = [str(tmp_path / name) for name in ("first", "second")]
    command = [sys.executable, "-m", "cordwood", "up", "--port", "0", "--set", f"log.dirs={','.join(paths)}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            ready = READY.search(node.stdout.readline())
            assert ready is not None
            yield Cli(ready[1]), paths
        finally:
            node.terminate()


@cordwood_only
def test_directories_are_shown_and_replicas_moved(two_directories: tuple[Cli, list[str]], topic: str) -> None:
    cli, paths = two_directories
    cli("produce", topic, "--create", stdin=b"record\n")
    rows = [line.split("\t") for line in cli("logdirs", "list").lines]
    assert sorted(row[1] for row in rows) == sorted(paths)
    assert {row[2] for row in rows} == {"online"}
    shown = cli("logdirs", "list", f"{topic}:0", "--broker", "1").lines
    (replica,) = [line.split("\t") for line in shown if line.startswith("replica\t")]
    here = replica[2]
    assert replica[3:5] == [topic, "0"]
    assert int(replica[5]) > 0
    there = next(path for path in paths if path != here)
    cli("logdirs", "move", f"{topic}:0", "--broker", "1", "--to", there, "--wait")
    told = {each["directory"]: each["replicas"] for each in cli("logdirs", "list", topic, "--json").json}
    assert [replica["partition"] for replica in told[there]] == [0]
    assert told[here] == []
    assert cli("consume", topic).lines == ["record"]
    refused = cli("logdirs", "move", topic, "--broker", "1", "--to", "/nowhere", fails=1).stderr
    assert "LOG_DIR_NOT_FOUND" in refused


# ---- leaders, brokers, features


def test_preferred_leaders_stay(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic, "-p", "2")
    assert cli("leader", "elect", f"{topic}:0,1").lines == []
    assert cli("leader", "elect", "--all", "--json").json == []
    assert "name topics, or give --all" in cli("leader", "elect", fails=2).stderr
    assert "has no partition 7" in cli("leader", "elect", f"{topic}:7", fails=2).stderr


def test_an_unclean_election_is_requested(cli: Cli, topic: str) -> None:
    cli("topic", "create", topic)
    done = cli("leader", "elect", topic, "--unclean", fails=2)
    assert done.stderr.startswith(f"cordwood: this would delete records that no live replica has, of {topic}-0; ")
    assert cli("leader", "elect", topic, "--unclean", "--yes").lines == []


def test_brokers_and_controllers_are_listed(cli: Cli) -> None:
    (broker,) = cli("broker", "list", "--fenced", "--json").json
    assert f"{broker['host']}:{broker['port']}" == cli.bootstrap
    assert broker["fenced"] is False
    assert cli("broker", "list").lines == [f"{broker['id']}\t{cli.bootstrap}\t-\tno"]
    assert [line.split("\t")[0] for line in cli("broker", "list", "--controllers").lines] == [str(broker["id"])]


def test_a_missing_broker_cannot_be_forgotten(cli: Cli) -> None:
    assert "give --yes" in cli("broker", "unregister", "4711", fails=2).stderr
    assert "BROKER_ID_NOT_REGISTERED" in cli("broker", "unregister", "4711", "--yes", fails=1).stderr


def test_features_are_listed_and_set(cli: Cli) -> None:
    levels = {line.split("\t")[0]: line.split("\t")[1:] for line in cli("feature", "list").lines}
    current, lowest, highest = levels["metadata.version"]
    assert {each["name"]: str(each["level"]) for each in cli("feature", "list", "--json").json}[
        "metadata.version"
    ] == current
    cli("feature", "set", f"metadata.version={current}", "--dry-run")
    refused = cli("feature", "set", f"metadata.version={int(highest) + 1000}", fails=1).stderr
    assert "INVALID_UPDATE_VERSION" in refused
    assert "'new' is not a feature level" in cli("feature", "set", "metadata.version=new", fails=2).stderr
    unsafe = cli("feature", "set", f"metadata.version={lowest}", "--downgrade", "unsafe", fails=2).stderr
    assert "this would delete metadata that the lower levels of metadata.version do not have" in unsafe


# ---- members of groups


def test_members_are_taken_out_of_a_group(cli: Cli, topic: str) -> None:
    group = f"g-{topic}"
    cli("produce", topic, "--create", stdin=b"a\n")
    with cli.start("consume", topic, "--group", group, "--follow") as member:
        assert member.read_line() == b"a\n"
        (before,) = cli("group", "describe", group, "--json").json
        (old,) = (each["memberId"] for each in before["members"])
        assert "name members, or give --all" in cli("group", "remove-members", group, fails=2).stderr
        assert (
            "this would delete all members from group" in cli("group", "remove-members", group, "--all", fails=2).stderr
        )
        cli("group", "remove-members", group, "--member", old, "--reason", "a test", "--yes")

        def is_another() -> bool:
            (now,) = cli("group", "describe", group, "--json").json
            return [each["memberId"] for each in now["members"]] not in ([], [old])

        # It lives, and joins again.
        until(is_another)


# ---- what our own broker does not have yet


@cordwood_only
@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("acl list", "no access control lists: every client that can connect may do everything (no DescribeAcls)"),
        ("quota list", "no client quotas: no client is slowed down (no DescribeClientQuotas)"),
        ("scram list", "no SASL, and keep no passwords of users (no DescribeUserScramCredentials)"),
        ("token list", "no delegation tokens (no DescribeDelegationToken)"),
        ("token create", "no delegation tokens (no CreateDelegationToken)"),
    ],
)
def test_a_request_that_the_broker_lacks_is_explained_in_one_line(cli: Cli, command: str, meaning: str) -> None:
    assert cli(*command.split(), fails=1).stderr == f"cordwood: the brokers support {meaning}\n"


def test_quotas_are_listed_and_altered() -> None:
    async def work(broker: ScriptedBroker, run: Any) -> None:
        entry = quotas.EntryData(
            entity=[
                quotas.EntityData(entity_type="user", entity_name="alice"),
                quotas.EntityData(entity_type="client-id", entity_name=None),
            ],
            values=[quotas.ValueData(key="producer_byte_rate", value=1048576.0)],
        )
        broker.answers[quotas.DescribeClientQuotasRequest.api_key] = lambda request, version: (
            quotas.DescribeClientQuotasResponse(entries=[entry])
        )
        broker.answers[altering.AlterClientQuotasRequest.api_key] = lambda request, version: (
            altering.AlterClientQuotasResponse(
                entries=[
                    altering.ResponseEntryData(
                        entity=[
                            altering.ResponseEntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                            for each in altered.entity
                        ]
                    )
                    for altered in request.entries
                ]
            )
        )
        listed = await run("quota", "list", "--name", "user=alice", "--any", "client-id", "--strict")
        assert listed.lines == ["user alice, client-id default\tproducer_byte_rate\t1048576"]
        assert (await run("quota", "list", "--json")).json == [
            {"entity": {"user": "alice", "client-id": None}, "quotas": {"producer_byte_rate": 1048576.0}}
        ]
        asked, _ = broker.seen_of(quotas.DescribeClientQuotasRequest)
        assert [(each.entity_type, each.match_type, each.match) for each in asked.components] == [
            ("user", 0, "alice"),
            ("client-id", 2, None),
        ]
        assert asked.strict
        await run("quota", "set", "producer_byte_rate=2048", "request_percentage=0.5", "--default", "user")
        await run("quota", "unset", "producer_byte_rate", "--name", "user=alice", "--dry-run")
        changed, removed = broker.seen_of(altering.AlterClientQuotasRequest)
        assert [(each.key, each.value, each.remove) for each in changed.entries[0].ops] == [
            ("producer_byte_rate", 2048.0, False),
            ("request_percentage", 0.5, False),
        ]
        assert (changed.entries[0].entity[0].entity_name, changed.validate_only) == (None, False)
        assert (removed.entries[0].ops[0].remove, removed.validate_only) == (True, True)
        assert "no entity" in (await run("quota", "set", "a=1", fails=2)).stderr
        assert "'much' is not a number" in (await run("quota", "set", "a=much", "--default", "ip", fails=2)).stderr
        assert "none of user, client-id, ip" in (await run("quota", "list", "--any", "usr", fails=2)).stderr

    scripted(work)


def test_scram_credentials_are_listed_set_and_deleted(tmp_path: Path) -> None:
    async def work(broker: ScriptedBroker, run: Any) -> None:
        credentials = [scram.CredentialInfo(mechanism=2, iterations=8192)]
        broker.answers[scram.DescribeUserScramCredentialsRequest.api_key] = lambda request, version: (
            scram.DescribeUserScramCredentialsResponse(
                results=[scram.DescribeUserScramCredentialsResult(user="alice", credential_infos=credentials)]
            )
        )
        broker.answers[AlterUserScramCredentialsRequest.api_key] = lambda request, version: (
            AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user="alice")])
        )
        assert (await run("scram", "list")).lines == ["alice\tSCRAM-SHA-512\t8192"]
        assert (await run("scram", "list", "alice", "--json")).json == [
            {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
        ]
        await run("scram", "set", "alice", "--password-file", "-", stdin=b"secret\n")
        await run("scram", "delete", "alice", "-m", "scram-sha-512", "--yes")
        set_, deleted = broker.seen_of(AlterUserScramCredentialsRequest)
        (upsertion,) = set_.upsertions
        assert (upsertion.name, upsertion.mechanism, upsertion.iterations) == ("alice", 1, 4096)
        assert b"secret" not in bytes(upsertion.salted_password)
        assert [(each.name, each.mechanism) for each in deleted.deletions] == [("alice", 2)]
        assert "give --password-file" in (await run("scram", "set", "alice", fails=2)).stderr
        empty = tmp_path / "empty"
        empty.write_text("\n")
        refused = await run("scram", "set", "alice", "--password-file", str(empty), fails=2)
        assert refused.stderr == f"cordwood: {empty}: the password is empty\n"
        assert "give --yes" in (await run("scram", "delete", "alice", fails=2)).stderr

    scripted(work)


def test_acls_are_listed_added_and_deleted() -> None:
    async def work(broker: ScriptedBroker, run: Any) -> None:
        described = describe_acls.AclDescription(principal="User:alice", host="*", operation=3, permission_type=3)
        resource = describe_acls.DescribeAclsResource(
            resource_type=2, resource_name="orders", pattern_type=3, acls=[described]
        )
        broker.answers[describe_acls.DescribeAclsRequest.api_key] = lambda request, version: (
            describe_acls.DescribeAclsResponse(resources=[resource])
        )
        broker.answers[create_acls.CreateAclsRequest.api_key] = lambda request, version: create_acls.CreateAclsResponse(
            results=[create_acls.AclCreationResult() for _ in request.creations]
        )
        broker.answers[delete_acls.DeleteAclsRequest.api_key] = lambda request, version: delete_acls.DeleteAclsResponse(
            filter_results=[delete_acls.DeleteAclsFilterResult() for _ in request.filters]
        )
        row = "TOPIC\torders\tLITERAL\tUser:alice\t*\tREAD\tALLOW"
        assert (await run("acl", "list", "--topic", "orders", "--operation", "read")).lines == [row]
        (asked,) = broker.seen_of(describe_acls.DescribeAclsRequest)
        assert (asked.resource_type_filter, asked.resource_name_filter, asked.operation) == (2, "orders", 3)
        assert (await run("acl", "list", "--json")).json[0]["permission"] == "ALLOW"
        who = ["--principal", "User:alice", "-o", "read", "-o", "describe-configs"]
        await run("acl", "add", *who, "--topic", "orders-", "--group", "g", "--prefixed", "--deny")
        (added,) = broker.seen_of(create_acls.CreateAclsRequest)
        assert [
            (each.resource_type, each.resource_name, each.resource_pattern_type, each.operation, each.permission_type)
            for each in added.creations
        ] == [(2, "orders-", 4, 3, 2), (2, "orders-", 4, 10, 2), (3, "g", 4, 3, 2), (3, "g", 4, 10, 2)]
        assert "give --yes" in (await run("acl", "delete", "--topic", "orders", fails=2)).stderr
        assert not broker.seen_of(delete_acls.DeleteAclsRequest)
        await run("acl", "delete", "--topic", "orders", "--yes")
        (deleted,) = broker.seen_of(delete_acls.DeleteAclsRequest)
        assert deleted.filters[0].resource_name_filter == "orders"
        assert "name ACLs to delete, or give --all" in (await run("acl", "delete", "--yes", fails=2)).stderr
        assert "no resource" in (await run("acl", "add", *who, fails=2)).stderr
        assert "no principal or operation" in (await run("acl", "add", "--cluster", fails=2)).stderr
        assert "'reed' is not one of all, read" in (await run("acl", "list", "-o", "reed", fails=2)).stderr

    scripted(work)


def test_tokens_are_created_listed_renewed_and_ended() -> None:
    async def work(broker: ScriptedBroker, run: Any) -> None:
        token = tokens.DescribedDelegationToken(
            principal_type="User",
            principal_name="alice",
            issue_timestamp=0,
            expiry_timestamp=1000,
            max_timestamp=2000,
            token_id="id",
            hmac=b"hmac",
            renewers=[tokens.DescribedDelegationTokenRenewer(principal_type="User", principal_name="etl")],
        )
        broker.answers[tokens.DescribeDelegationTokenRequest.api_key] = lambda request, version: (
            tokens.DescribeDelegationTokenResponse(tokens=[token])
        )
        broker.answers[CreateDelegationTokenRequest.api_key] = lambda request, version: CreateDelegationTokenResponse(
            principal_type="User", principal_name="me", token_id="new", hmac=b"code"
        )
        broker.answers[RenewDelegationTokenRequest.api_key] = lambda request, version: RenewDelegationTokenResponse(
            expiry_timestamp_ms=request.renew_period_ms
        )
        broker.answers[ExpireDelegationTokenRequest.api_key] = lambda request, version: ExpireDelegationTokenResponse(
            expiry_timestamp_ms=request.expiry_time_period_ms
        )
        times = ["1970-01-01T00:00:00.000+00:00", "1970-01-01T00:00:01.000+00:00", "1970-01-01T00:00:02.000+00:00"]
        assert (await run("token", "list")).lines == ["\t".join(["id", "User:alice", "User:etl", *times])]
        code = base64.b64encode(b"code").decode()
        created = (await run("token", "create", "--renewer", "User:etl", "--lifetime", "7d", "--json")).json
        assert (created["id"], created["hmac"], created["owner"]) == ("new", code, "User:me")
        (asked,) = broker.seen_of(CreateDelegationTokenRequest)
        assert asked.max_lifetime_ms == 7 * 86_400_000
        assert (await run("token", "renew", code, "--for", "1s")).lines == [times[1]]
        assert "give --yes" in (await run("token", "expire", code, fails=2)).stderr
        assert (await run("token", "expire", code, "--after", "2s", "--yes")).lines == [times[2]]
        assert bytes(broker.seen_of(ExpireDelegationTokenRequest)[0].hmac) == b"code"
        assert "is not base64" in (await run("token", "renew", "!", fails=2)).stderr

    scripted(work)


def test_partitions_are_moved_between_brokers(tmp_path: Path) -> None:
    async def work(broker: ScriptedBroker, run: Any) -> None:
        moving = moves.OngoingPartitionReassignment(
            partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[1]
        )
        broker.answers[moves.ListPartitionReassignmentsRequest.api_key] = lambda request, version: (
            moves.ListPartitionReassignmentsResponse(
                topics=[moves.OngoingTopicReassignment(name="t", partitions=[moving])]
            )
        )

        def begin(request: Any, version: int) -> reassigning.AlterPartitionReassignmentsResponse:
            return reassigning.AlterPartitionReassignmentsResponse(
                responses=[
                    reassigning.ReassignableTopicResponse(
                        name=topic.name,
                        partitions=[
                            reassigning.ReassignablePartitionResponse(partition_index=each.partition_index)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )

        broker.answers[reassigning.AlterPartitionReassignmentsRequest.api_key] = begin
        assert (await run("reassign", "list")).lines == ["t\t0\t1,2\t2\t1"]
        assert (await run("reassign", "list", "t", "--json")).json[0]["addingReplicas"] == [2]
        await run("reassign", "start", "t:0=2:3", "t:1=3:2")
        file = tmp_path / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 4, "replicas": [9]}]}))
        await run("reassign", "start", "--from-file", str(file), "--keep-replication-factor")
        await run("reassign", "cancel", "t")
        started, from_file, cancelled = broker.seen_of(reassigning.AlterPartitionReassignmentsRequest)
        assert [(each.partition_index, each.replicas) for each in started.topics[0].partitions] == [
            (0, [2, 3]),
            (1, [3, 2]),
        ]
        assert [(each.partition_index, each.replicas) for each in from_file.topics[0].partitions] == [(4, [9])]
        assert not from_file.allow_replication_factor_change
        assert [(each.partition_index, each.replicas) for each in cancelled.topics[0].partitions] == [(0, None)]
        assert "is not TOPIC:PARTITION=ID:ID" in (await run("reassign", "start", "t=1", fails=2)).stderr
        file.write_text("[]")
        assert "is not JSON such as" in (await run("reassign", "start", "--from-file", str(file), fails=2)).stderr
        assert "give moves, or a file" in (await run("reassign", "start", fails=2)).stderr

    scripted(work)


# ---- all of it


def test_every_call_of_admin_has_a_verb_that_exists() -> None:
    """docs/cli.md lists them: a call, and the commands that make it."""
    calls = {
        name for name in dir(Admin) if not name.startswith("_") and asyncio.iscoroutinefunction(getattr(Admin, name))
    } - {"start", "close"}
    section = DOCS.read_text().partition("## A verb for each call")[2]
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
    assert listed.keys() == calls
    root = typer.main.get_command(app)
    for call, verbs in listed.items():
        named = re.findall(r"`cordwood ([a-z -]+?)(?: --[a-z-]+)?`", verbs)
        assert named or verbs.startswith("none: "), call
        for words in named:
            _resolve(root, words.split())


def _resolve(command: Any, words: list[str]) -> None:
    for word in words:
        command = command.commands[word]
        if hasattr(command, "_real"):
            command = command._real()
