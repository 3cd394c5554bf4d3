"""Fetch without sessions."""

from __future__ import annotations

from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import FETCH_VERSIONS, Place, fetch, produce

# Clearly longer than an immediate answer.
_WAIT_MS = 1000
_NO_ID = b"\x01" * 16


async def fetching(ask: Asking) -> None:
    topic_id = await ask.create("orders", 3)
    empty_id = await ask.create("empty", 1)
    for values in (("a", "b", "c"), ("d" * 1000,), ("e", "f")):
        await ask.quietly(produce("orders", batch(*values)), 9)
    await ask.quietly(produce("orders", batch("g" * 300, "h"), partition=1), 9)

    by_name, by_id = range(4, 13), range(13, 19)
    await ask.all_versions("from the start", fetch({("orders", 0): 0, ("orders", 1): 0}), by_name)
    await ask.all_versions("from the start", fetch({(topic_id, 0): 0, (topic_id, 1): 0}), by_id)
    for offset in (1, 2, 3, 4, 5):
        await ask("from offset " + str(offset), fetch({("orders", 0): offset}), 12)
    await ask("at the end", fetch({("orders", 0): 6}), 12)
    for offset in (7, 1000, -1, -2):
        await ask(f"out of range: {offset}", fetch({("orders", 0): offset}), 12)
    await ask.waiting(
        "out of range, with one that is not", fetch({("orders", 0): 99, ("orders", 1): 0}, max_wait_ms=_WAIT_MS), 12
    )
    await ask("an empty partition", fetch({("empty", 0): 0}), 12)
    await ask("nothing", fetch({}), 12)

    await ask("an unknown topic", fetch({("none", 0): 0, ("orders", 1): 0}), 12)
    await ask("an unknown partition", fetch({("orders", 7): 0, ("orders", 1): 0}), 12)
    await ask("a negative partition", fetch({("orders", -1): 0}), 12)
    await ask("an unknown id", fetch({(_NO_ID, 0): 0, (topic_id, 1): 0, (_NO_ID, 1): 0}), 17)
    await ask("the zero id", fetch({(bytes(16), 0): 0}), 17)
    await ask("a name that no topic may have", fetch({("a b", 0): 0}), 12)
    await ask("an unknown partition by id", fetch({(topic_id, 7): 0, (empty_id, 0): 0}), 17)

    for limit in (1, 100, 1100, 1200, 1300, 1400):
        await ask(f"at most {limit} bytes in all", fetch({("orders", 0): 0, ("orders", 1): 0}, max_bytes=limit), 12)
        small = {"partition_max_bytes": limit, "fetch_offset": 0}
        await ask(f"at most {limit} bytes each", fetch({("orders", 0): small, ("orders", 1): small}), 12)
    none = {"partition_max_bytes": 0, "fetch_offset": 0}
    await ask("no bytes of either", fetch({("orders", 0): none, ("orders", 1): none}), 12)
    await ask("no bytes in all", fetch({("orders", 0): 0, ("orders", 1): 0}, max_bytes=0), 12)
    await ask("a negative limit", fetch({("orders", 0): 0, ("orders", 1): 0}, max_bytes=-5), 12)
    negative = {"partition_max_bytes": -5, "fetch_offset": 0}
    await ask("negative limits", fetch({("orders", 0): negative, ("orders", 1): negative}), 12)
    await ask("the large batch is not first", fetch({("orders", 1): 0, ("orders", 0): 3}, max_bytes=400), 12)
    await ask("an empty one before it", fetch({("empty", 0): 0, ("orders", 0): 3}, max_bytes=400), 12)

    await ask("more than there is, without waiting", fetch({("orders", 0): 4}, min_bytes=10_000), 12)
    await ask.waiting(
        "more than there is, waiting", fetch({("orders", 0): 4}, min_bytes=10_000, max_wait_ms=_WAIT_MS), 12
    )
    await ask.waiting(
        "more than the limit", fetch({("orders", 0): 4}, min_bytes=10_000, max_bytes=10, max_wait_ms=_WAIT_MS), 12
    )
    await ask.waiting("no bytes at all", fetch({("empty", 0): 0}, min_bytes=0, max_wait_ms=_WAIT_MS), 12)
    await ask("negative wait", fetch({("empty", 0): 0}, max_wait_ms=-1), 12)

    for epoch in (0, 1, 5, -1, -2):
        await ask.all_versions(
            f"leader epoch {epoch}", fetch({("orders", 0): {"fetch_offset": 4, "current_leader_epoch": epoch}}), (9, 12)
        )
    await ask("a later epoch", fetch({(topic_id, 0): {"fetch_offset": 4, "current_leader_epoch": 7}}), 17)
    for epoch in (0, 1, 5, -1, -2):
        for offset in (0, 6, 7):
            said = {"fetch_offset": offset, "last_fetched_epoch": epoch}
            await ask.waiting(
                f"last fetched epoch {epoch} at {offset}", fetch({("orders", 0): said}, max_wait_ms=_WAIT_MS), 12
            )
    said = {"fetch_offset": 0, "last_fetched_epoch": 0}
    await ask("last fetched epoch of an empty one", fetch({("empty", 0): said}), 12)
    diverged = {"fetch_offset": 7, "last_fetched_epoch": 0}
    await ask("parted, read committed", fetch({("orders", 0): diverged}, isolation_level=1), 12)

    for replica_id in (0, 1, 2, -2, -3):
        await ask.all_versions(
            f"replica {replica_id}", fetch({("orders", 0): 4, ("empty", 0): 0}, replica_id=replica_id), (4, 12)
        )
        with_epoch = {"fetch_offset": 4, "current_leader_epoch": 0}
        await ask(f"replica {replica_id}", fetch({(topic_id, 0): with_epoch}, replica_state=replica_id), 17)
        await ask(f"replica {replica_id}", fetch({(topic_id, 0): 4}, replica_state=replica_id), 17)
    for level in (1, 2, -1):
        await ask(f"isolation level {level}", fetch({("orders", 0): 4, ("empty", 0): 0}, isolation_level=level), 12)

    twice = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(topic="orders", partitions=[_part(0, 4), _part(1, 0), _part(0, 3)]),
            FetchTopic(topic="empty", partitions=[_part(0, 0)]),
            FetchTopic(topic="orders", partitions=[_part(1, 2), _part(2, 0)]),
        ],
    )
    await ask("twice the same", twice, 12)
    mixed: dict[Place, int] = {
        ("orders", 0): 4,
        ("empty", 0): 0,
        ("none", 0): 0,
        ("orders", 1): 0,
        ("orders", 9): 0,
        ("empty", 1): 0,
    }
    await ask("the order of answers", fetch(mixed), 12)

    await ask.create("zstd", 1, compression_type="zstd")
    await ask.quietly(produce("zstd", batch("z")), 9)
    await ask.all_versions("zstd", fetch({("zstd", 0): 0, ("orders", 0): 4}), (4, 9, 10, 12))
    await ask("zstd out of range", fetch({("zstd", 0): 5}), 9)
    assert list(FETCH_VERSIONS) == [*by_name, *by_id]


def _part(partition: int, offset: int) -> FetchPartition:
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
