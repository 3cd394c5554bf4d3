"""One step of consume, transform, produce: the records read, the results, and the new offset, as one transaction."""

from cordwood.sim.clients.client import Client
from cordwood.sim.clients.consumer import fetch_topics, note_read, partitions_of
from cordwood.sim.groups.offsets import NOBODY, Identity, Position
from cordwood.sim.histories.history import Read
from cordwood.sim.partition import Partition
from cordwood.wire.messages.fetch import FetchRequest

from .producer import TransactionalProducer

_FETCH_SINCE = 10
_ABORT = 0.1
_HESITATION = 0.15


async def read_committed(client: Client, partition: Partition, offset: int) -> Read:
    """Raises `NetworkError`."""
    request = FetchRequest(
        max_wait_ms=200,
        min_bytes=1,
        max_bytes=1_000,
        isolation_level=1,
        session_epoch=-1,
        topics=fetch_topics(client.run, {partition: offset}, 1_000),
    )
    begun_s = client.run.now_s
    response = await client.ask(request, client.source.randint(_FETCH_SINCE, FetchRequest.stable_versions.high))
    ((_, data),) = partitions_of(client.run, response)
    return note_read(client, partition, offset, begun_s, data, is_alone=True, is_committed=True)


async def transformed(
    producer: TransactionalProducer,
    group: str,
    read: Read,
    targets: list[Partition],
    position: Position,
    identity: Identity = NOBODY,
    *,
    hesitation_s: float = 0.0,
) -> bool:
    """Returns whether it was committed; otherwise it was aborted. Raises `Lost`, `Died`. `hesitation_s`: for how long
    it may do nothing when all is ready."""
    transaction = producer.begin()
    for record in read.visible():
        for send in await producer.send(transaction, [producer.source.choice(targets)]):
            place = (group, *read.partition, record.offset)
            producer.run.history.transactions.inputs[send.values[0]] = place
    await producer.commit_offsets(transaction, group, {read.partition: position}, identity)
    if producer.chance(_HESITATION):
        await producer.pause(hesitation_s)
    commit = not producer.chance(_ABORT)
    await producer.end(transaction, commit=commit)
    return commit
