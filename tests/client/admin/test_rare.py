"""The admin client on a real cluster: what only some brokers have."""

from dataclasses import replace
from functools import partial

import pytest

from cordwood.client.admin.acls import Acl, AclFilter, AclOperation, AclResourceType
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.quotas import QuotaEntity, QuotaName
from cordwood.client.admin.scram import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, UnsupportedByBroker
from cordwood.wire.errors import ErrorCode
from tests.client.administering import Administer, becomes, cordwood_only, kafka_only, make


@cordwood_only
def test_a_request_that_the_broker_lacks_is_reported(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        acl = Acl(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
        for call in (
            admin.describe_acls(),
            admin.create_acls([acl]),
            admin.delete_acls([AclFilter()]),
            admin.describe_client_quotas(),
            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1.0}}),
            admin.describe_user_scram_credentials(),
            admin.alter_user_scram_credentials([ScramDeletion("alice", ScramMechanism.SCRAM_SHA_256)]),
            admin.create_delegation_token(),
            admin.renew_delegation_token(b"hmac"),
            admin.expire_delegation_token(b"hmac"),
            admin.describe_delegation_tokens(),
        ):
            with pytest.raises(UnsupportedByBroker, match="the broker has no "):
                await call

    administer(work)


@kafka_only
def test_partitions_are_reassigned(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        partition = TopicPartition(topic, 0)
        (broker,) = (broker.id for broker in (await admin.describe_cluster()).brokers)
        await admin.alter_partition_reassignments({partition: [broker]})
        assert await admin.list_partition_reassignments([partition]) == {}
        with pytest.raises(BrokerError) as caught:
            await admin.alter_partition_reassignments({partition: None})
        assert caught.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        with pytest.raises(BrokerError) as caught:
            await admin.alter_partition_reassignments({partition: [4_711]})
        assert caught.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    administer(work)


@kafka_only
def test_quotas_are_set_described_and_removed(administer: Administer, topic: str) -> None:
    user = f"user-{topic}"

    async def work(admin: Admin) -> None:
        own, default = QuotaEntity(user=user), QuotaEntity(user=user, client_id=QuotaName.DEFAULT)
        await admin.alter_client_quotas({own: {"producer_byte_rate": 1024.0}, default: {"consumer_byte_rate": 2048.0}})
        both = {own: {"producer_byte_rate": 1024.0}, default: {"consumer_byte_rate": 2048.0}}
        await becomes(partial(admin.describe_client_quotas, {"user": user}), both)
        assert list(await admin.describe_client_quotas({"user": user}, strict=True)) == [own]
        assert own in await admin.describe_client_quotas({"user": QuotaName.ANY})
        await admin.alter_client_quotas({own: {"producer_byte_rate": None}, default: {"consumer_byte_rate": None}})
        await becomes(partial(admin.describe_client_quotas, {"user": user}), {})
        with pytest.raises(BrokerError) as caught:
            await admin.alter_client_quotas({own: {"no_such_quota": 1.0}})
        assert caught.value.code == ErrorCode.INVALID_REQUEST

    administer(work)


@kafka_only
def test_acls_are_created_described_and_deleted(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        read = Acl(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
        write = replace(read, operation=AclOperation.WRITE)
        try:
            await admin.create_acls([read, write])
        except BrokerError as error:
            if error.code == ErrorCode.SECURITY_DISABLED:
                pytest.skip("this Kafka has no authorizer")
            raise
        wanted = AclFilter(resource_name=topic)
        try:
            await becomes(partial(acls_of, admin, wanted), {read, write})
            assert await admin.describe_acls(replace(wanted, operation=AclOperation.READ)) == [read]
        finally:
            deleted = await admin.delete_acls([wanted])
        assert set(deleted[wanted]) == {read, write}
        await becomes(partial(acls_of, admin, wanted), set())

    administer(work)


async def acls_of(admin: Admin, wanted: AclFilter) -> set[Acl]:
    return set(await admin.describe_acls(wanted))


@kafka_only
def test_credentials_are_set_described_and_deleted(administer: Administer, topic: str) -> None:
    user = f"user-{topic}"

    async def work(admin: Admin) -> None:
        await admin.alter_user_scram_credentials(
            [
                ScramUpsertion(user, ScramMechanism.SCRAM_SHA_256, b"secret"),
                ScramUpsertion(f"{user}-2", ScramMechanism.SCRAM_SHA_512, b"secret", iterations=8192),
            ]
        )
        await becomes(
            partial(credentials_of, admin, {user, f"{user}-2"}),
            {
                user: [ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096)],
                f"{user}-2": [ScramCredential(ScramMechanism.SCRAM_SHA_512, 8192)],
            },
        )
        await admin.alter_user_scram_credentials(
            [
                ScramDeletion(user, ScramMechanism.SCRAM_SHA_256),
                ScramDeletion(f"{user}-2", ScramMechanism.SCRAM_SHA_512),
            ]
        )
        await becomes(partial(credentials_of, admin, {user, f"{user}-2"}), {})
        with pytest.raises(BrokerError) as caught:
            await admin.describe_user_scram_credentials([user])
        assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND

    administer(work)


@kafka_only
def test_tokens_are_refused_over_connections_without_authentication(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        refusals = (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        for call in (
            admin.create_delegation_token(owner="User:alice", renewers=["User:bob"]),
            admin.renew_delegation_token(b"hmac"),
            admin.expire_delegation_token(b"hmac"),
            admin.describe_delegation_tokens(["User:alice"]),
        ):
            with pytest.raises(BrokerError) as caught:
                await call
            assert caught.value.code in refusals

    administer(work)


async def credentials_of(admin: Admin, users: set[str]) -> dict[str, list[ScramCredential]]:
    everybody = await admin.describe_user_scram_credentials()
    return {user: found for user, found in everybody.items() if user in users}
