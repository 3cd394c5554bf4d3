"""Average record sizes as far as brokers report them: the size of a partition's log divided by its offsets."""

from collections.abc import Collection

from cordwood.client.admin.log_dirs import describe_log_dirs
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.offset_lookup import earliest, latest


async def bytes_per_offset(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
    """Average sizes as stored, compressed if they are. Raises `CannotRead` if the brokers do not report sizes."""
    sizes: dict[TopicPartition, int] = {}
    for told in (await describe_log_dirs(client, partitions=partitions)).values():
        if isinstance(told, BrokerError):
            raise CannotRead(f"maxBytesPerTrigger needs log sizes, which the brokers do not report: {told}")
        for directory in told.values():
            for partition, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes[partition] = max(replica.size_bytes, sizes.get(partition, 0))
    begins = await earliest(client, partitions)
    ends = await latest(client, partitions, read_committed=False)
    return {
        partition: size / (ends[partition] - begins[partition])
        for partition, size in sizes.items()
        if size > 0 and ends[partition] > begins[partition]
    }
