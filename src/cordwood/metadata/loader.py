"""Turns committed batches of the metadata log into images, with one delta per batch.

    loader = load(log)                          # the newest snapshot, and the log after it
    metadata_log.on_commit(loader.committed)
    loader.subscribe(broker)                    # broker.apply(delta, image) for each batch from here on

A metadata transaction (KIP-868) may span batches; its records count when its end is there, all at once.

A publisher that fails is our bug. It is logged and counted, and it and the others still receive later metadata, as with
Kafka's fault handler: a record that one part of the node cannot digest must not stop every node of the cluster.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.metadata.storage.snapshot import Snapshot
from cordwood.wire.messages.metadata_records.abort_transaction_record import AbortTransactionRecord
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.schema import MetadataRecord

from .delta import MetadataDelta
from .exceptions import InvalidMetadata
from .image import MetadataImage, OffsetAndEpoch
from .snapshot_delta import snapshot_delta

_log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """The result of loading a batch. Images are immutable, so a second loader that is at `before` need not load it
    again: on a controller's node the controller, ahead of the commit, and the broker, after it, load the same
    batches."""

    before: MetadataImage
    delta: MetadataDelta
    after: MetadataImage


class Publisher(Protocol):
    """A part of a node that follows the metadata."""

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Acts on a committed change. `image` is the metadata after it."""


class Loader:
    """`image` is the state loaded so far. While `in_transaction` no snapshot may be taken: it could end within a
    batch."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.image = image or MetadataImage()
        # How often a publisher has failed.
        self.publishing_errors = 0
        # Records of the open transaction, and the offset of its beginning.
        self._held: list[MetadataRecord] | None = None
        self._begun_at = 0
        self._publishers: list[Publisher] = []

    @classmethod
    def of_snapshot(cls, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> "Loader":
        delta = MetadataDelta(MetadataImage()).replay_all(snapshot.records)
        return cls(delta.apply(snapshot_id, snapshot.last_timestamp_ms))

    def fork(self) -> "Loader":
        """A loader at the same place, without publishers."""
        forked = Loader(self.image)
        forked._held = None if self._held is None else list(self._held)
        forked._begun_at = self._begun_at
        return forked

    def install(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        """Continues from a snapshot of the leader that is ahead of the image, and publishes the differences. An open
        transaction is decided in it."""
        self._held = None
        delta = snapshot_delta(self.image, snapshot.records)
        self.image = delta.apply(snapshot_id, snapshot.last_timestamp_ms)
        self._publish(delta)

    @property
    def in_transaction(self) -> bool:
        return self._held is not None

    def subscribe(self, publisher: Publisher) -> None:
        """Subscribes a publisher that has seen `image` to every later change; publishers are called in order of
        subscription."""
        self._publishers.append(publisher)

    def committed(self, batches: Sequence[MetadataBatch]) -> None:
        """Loads committed batches, and publishes each. Raises InvalidMetadata if one cannot be loaded: no image can
        follow."""
        for batch in batches:
            try:
                delta = self.load(batch)
            except InvalidMetadata:
                raise
            except Exception as error:
                what = f"the batch at offset {batch.base_offset} cannot be loaded: {type(error).__name__}: {error}"
                raise InvalidMetadata(what) from error
            if not self.in_transaction:
                self._publish(delta)

    def _publish(self, delta: MetadataDelta) -> None:
        for publisher in self._publishers:
            try:
                publisher.apply(delta, self.image)
            except Exception:  # noqa: BLE001  # our bug; the other publishers are not to miss the change
                self.publishing_errors += 1
                _log.exception(
                    "Applying the metadata up to offset %d failed in %s: this change may be only partly in effect. "
                    "Later changes are applied; restart the node to apply this one",
                    self.image.covers.offset - 1,
                    type(publisher).__name__,
                )

    def load(self, batch: MetadataBatch) -> MetadataDelta:
        """Applies the batch and returns the changes; empty while a transaction is open."""
        loaded = batch.loaded
        if loaded is not None and loaded.before is self.image and not self.in_transaction:
            self.image = loaded.after
            return loaded.delta
        if batch.base_offset < self.image.covers.offset and not self.in_transaction:
            raise InvalidMetadata(f"offset {batch.base_offset} was loaded already, up to {self.image.covers.offset}")
        before, is_whole = self.image, not self.in_transaction
        delta = MetadataDelta(before)
        for offset, record in enumerate(batch.records, batch.base_offset):
            self._take(delta, offset, record)
        offset = batch.next_offset if self._held is None else self._begun_at
        self.image = delta.apply(OffsetAndEpoch(offset, batch.epoch), batch.timestamp_ms)
        if is_whole and not self.in_transaction:
            batch.loaded = Loaded(before, delta, self.image)
        return delta

    def _take(self, delta: MetadataDelta, offset: int, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                if self._held is not None:
                    raise InvalidMetadata(f"a transaction begins within another one at offset {offset}")
                self._held, self._begun_at = [], offset
            case EndTransactionRecord() | AbortTransactionRecord():
                if self._held is None:
                    raise InvalidMetadata(f"a transaction ends at offset {offset} that has not begun")
                if isinstance(record, EndTransactionRecord):
                    delta.replay_all(self._held)
                self._held = None
            case _ if self._held is not None:
                self._held.append(record)
            case _:
                delta.replay(record)
