"""Deserializers and interceptors of a consumer for threads: both run in the reading thread, in this order."""

from collections.abc import Callable

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.deserialization import Deserialization
from cordwood.client.consumer.interceptors import Interceptors, Records
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import SerializationFailed
from cordwood.client.schema_hooks import NeedsLoading
from cordwood.wire.record import ConsumerRecord

Seek = Callable[[TopicPartition, int], None]


class DeserializingInterceptors(Interceptors):
    """`seek` is called from that thread, to return records that were taken but cannot be deserialized."""

    def __init__(self, settings: ConsumerSettings, seek: Seek) -> None:
        super().__init__(settings.interceptors)
        self._deserialize = Deserialization(settings)
        self._reads = self._deserialize.is_needed
        self._seek = seek

    @property
    def see_records(self) -> bool:
        return self._reads or super().see_records

    def on_consume(self, records: Records) -> Records:
        """Raises `SerializationFailed` if the first record of a partition cannot be deserialized; then nothing was
        taken."""
        return super().on_consume(self._deserialized(records) if self._reads else records)

    def _deserialized(self, records: Records) -> Records:
        read: Records = {}
        for partition, given in records.items():
            done, failure = self._read_all(given)
            if failure is not None and not done:
                for each, taken in records.items():
                    self._seek(each, taken[0].offset)
                raise SerializationFailed(
                    f"{partition}: the record at offset {given[0].offset} cannot be deserialized: {failure}; "
                    "seek past it to continue",
                    partition,
                    given[0].offset,
                ) from failure
            if failure is not None:
                # It will be the first next time.
                self._seek(partition, given[len(done)].offset)
            read[partition] = done
        return read

    def _read_all(self, records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], Exception | None]:
        """Returns the records before the first that fails, and its error."""
        done: list[ConsumerRecord] = []
        for record in records:
            try:
                done.append(self._read(record))
            except Exception as error:  # noqa: BLE001  # an application's own function may raise anything
                return done, error
        return done, None

    def _read(self, record: ConsumerRecord) -> ConsumerRecord:
        try:
            return self._deserialize(record)
        except NeedsLoading as needed:
            # This is an event loop's thread, which the call blocks anyway.
            needed.load()
            return self._deserialize(record)
