"""Arrow record batches as returned by a consumer, with their topic and partition."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from cordwood.client.cluster import TopicPartition
from cordwood.wire.arrow import schema

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def placed(batch: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """Adds topic and partition. All batches of a consumer have one schema, so that they can form a table.

    The topic is a dictionary with one entry: as plain text it would cost more than decoding the records.
    """
    import pyarrow as pa

    count = batch.num_rows
    indexes = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])
    topics = pa.DictionaryArray.from_arrays(indexes, pa.array([partition.topic]))
    contents = partition.partition.to_bytes(4, sys.byteorder) * count
    numbers = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(contents)])
    return pa.RecordBatch.from_arrays([topics, numbers, *batch.columns], schema=placed_schema(batch.num_columns == 5))


@cache
def placed_schema(headers: bool) -> pa.Schema:
    import pyarrow as pa

    topic = pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False)
    return pa.schema([topic, pa.field("partition", pa.int32(), nullable=False), *schema(headers=headers)])
