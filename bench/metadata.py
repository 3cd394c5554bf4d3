"""Metadata: the image of a large cluster, a change in it, its snapshot."""

import time

from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage, OffsetAndEpoch
from cordwood.metadata.image_records import image_records
from cordwood.metadata.storage.snapshot import decode_snapshot, encode_snapshot
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.schema import MetadataRecord

TOPICS = 10_000
CHANGES = 5_000


def main() -> None:
    records: list[MetadataRecord] = []
    ids = [number.to_bytes(16) for number in range(1, TOPICS + 1)]
    for number, topic_id in enumerate(ids):
        records.append(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        records.append(
            PartitionRecord(
                topic_id=topic_id,
                partition_id=0,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[ids[0]],
            )
        )
    started = time.perf_counter()
    image = MetadataDelta(MetadataImage()).replay_all(records).apply(OffsetAndEpoch(1, 1), 0)
    print(f"{TOPICS} topics replayed: {(time.perf_counter() - started) * 1000:.0f} ms")

    started = time.perf_counter()
    for number in range(CHANGES):
        delta = MetadataDelta(image)
        delta.replay(PartitionChangeRecord(topic_id=ids[number * 7 % TOPICS], partition_id=0, isr=[1], leader=1))
        image = delta.apply(OffsetAndEpoch(number + 2, 1), 0)
    print(f"one partition changed, new image: {(time.perf_counter() - started) / CHANGES * 1e6:.1f} µs")

    started = time.perf_counter()
    data = encode_snapshot(image_records(image), metadata_version=30, epoch=1, last_timestamp_ms=0, now_ms=0)
    print(f"snapshot written: {(time.perf_counter() - started) * 1000:.0f} ms, {len(data) / 1e6:.1f} MB")
    started = time.perf_counter()
    MetadataDelta(MetadataImage()).replay_all(decode_snapshot("", data).records).apply(OffsetAndEpoch(1, 1), 0)
    print(f"snapshot read: {(time.perf_counter() - started) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
