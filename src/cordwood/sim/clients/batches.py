"""Batches of records whose values identify them."""

from random import Random

from cordwood.sim.histories.history import Partition, Send
from cordwood.wire.compression import Codec
from cordwood.wire.records import encode_batch

from .client import Client

_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
_COMPRESSED = 0.15
_LARGE = 0.05
_MAX_RECORDS = 4
_KEYS = 8
# How much older than its sending a record's timestamp is, at the most.
MAX_AGE_MS = 50


def new_send(client: Client, partition: Partition, acks: int, *, count: int | None = None) -> Send:
    """A batch to be sent, in the history from here on; of so many records, or of any number."""
    run = client.run
    number = run.next_number()
    values = tuple(
        f"{client.name}/{number}.{at}/".encode() + _padding(client.source)
        for at in range(client.source.randint(1, _MAX_RECORDS) if count is None else count)
    )
    if partition[0] in run.history.compacted:
        keys: tuple[bytes | None, ...] = tuple(f"key {client.source.randrange(_KEYS)}".encode() for _ in values)
    else:
        keys = tuple(client.source.choice((None, b"", b"key")) for _ in values)
    send = Send(number, client.name, partition, values, keys, acks, run.now_s, first_incarnation=client.incarnation)
    run.history.sends.append(send)
    return send


def encode(client: Client, send: Send) -> bytearray:
    source = client.source
    now_ms = client.run.world.clock.now_ms()
    return encode_batch(
        [
            (at, now_ms - source.randrange(MAX_AGE_MS), key, value, ())
            for at, (key, value) in enumerate(zip(send.keys, send.values, strict=True))
        ],
        codec=source.choice(_CODECS) if source.random() < _COMPRESSED else Codec.NONE,
        producer_id=send.producer_id,
        producer_epoch=send.producer_epoch if send.is_idempotent else -1,
        base_sequence=send.sequence,
        transactional=send.transaction >= 0,
    )


def _padding(source: Random) -> bytes:
    size = source.randrange(20_000) if source.random() < _LARGE else source.randrange(100)
    return source.randbytes(size)
