"""Asking for an offset by a timestamp, or for the ends of a partition."""

from cordwood.sim.histories.history import Listed, Partition
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .client import Client

EARLIEST, LATEST = -2, -1


async def list_offset(client: Client, partition: Partition, timestamp: int) -> Listed | None:
    """Returns None if the broker reports an error. Raises `NetworkError`."""
    run = client.run
    begun_s = run.now_s
    response = await client.ask(
        ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(
                    name=partition[0],
                    partitions=[ListOffsetsPartition(partition_index=partition[1], timestamp=timestamp)],
                )
            ],
        )
    )
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        return None
    listed = Listed(partition, client.incarnation, begun_s, run.now_s, timestamp, answer.offset, answer.timestamp)
    run.history.listed.append(listed)
    return listed
