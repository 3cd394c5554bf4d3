"""Disks that fail under a coordinator: all clients get an error of the protocol at once."""

from __future__ import annotations

import asyncio
import errno

from cordwood.broker.coordination.topics import GROUP_TOPIC, TRANSACTION_TOPIC
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.list_groups import ListGroupsRequest
from cordwood.wire.messages.list_transactions import ListTransactionsRequest
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.in_process import InProcessNode
from tests.broker.test_offline import ONE, TWO, Host, in_directory, with_disks

_ONE_SHARD = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}


def _commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def test_groups_are_listed_while_the_disk_of_their_coordinator_fails() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        await node.create("t")
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key="g"), 3)
        assert (await channel.request(_commit(), 8)).topics[0].partitions[0].error_code == ErrorCode.NONE
        root = ONE if in_directory(node, ONE, GROUP_TOPIC) else TWO
        host.disks[root].fail_next("append to", errno.EIO)
        # Sent together, so that the failure is unknown when the groups are listed.
        committed, listed = await asyncio.gather(channel.request(_commit(), 8), channel.request(ListGroupsRequest(), 4))
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert listed.error_code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)

    with_disks(test, **_ONE_SHARD)


def test_transactions_are_listed_while_the_disk_of_their_coordinator_fails() -> None:
    async def test(host: Host, node: InProcessNode) -> None:
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key="x", key_type=1), 3)
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
        assert (await channel.request(init, 4)).error_code == ErrorCode.NONE
        root = ONE if in_directory(node, ONE, TRANSACTION_TOPIC) else TWO
        host.disks[root].fail_next("append to", errno.EIO)
        begun, listed = await asyncio.gather(channel.request(init, 4), channel.request(ListTransactionsRequest(), 1))
        assert begun.error_code == ErrorCode.NOT_COORDINATOR
        assert listed.error_code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)

    with_disks(test, **_ONE_SHARD)
