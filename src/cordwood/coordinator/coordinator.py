"""All shards of one coordinator on this broker: loaded when the broker becomes leader of their partitions, dropped when
it ceases to be.

shard = coordinator.shard("orders-service") # Refusal while it is loading, or is another broker's result =
shard.decide(...)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from cordwood.metadata.topics_delta import ReplicaChanges
from cordwood.replica.partition import Partition
from cordwood.replica.replicas import Replicas
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.shard.decision import ProducerIdAndEpoch
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Performer, Shard
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.record import CorruptBatch

from .loading import LoadedState, load
from .partition_log import PartitionLog

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=LoadedState)

# Ids are hashed as Java does it, in microseconds; a client sends the same one again and again.
_REMEMBERED_IDS = 10_000
_partition_for_id = lru_cache(_REMEMBERED_IDS)(partition_for_id)


class Coordinator(Generic[S]):
    def __init__(
        self,
        kind: str,
        topic: str,
        replicas: Replicas,
        clock: Clock,
        *,
        new_state: Callable[[int], S],
        partition_count: Callable[[], int],
        timeout_ms: Callable[[], int],
        load_buffer_bytes: Callable[[], int],
        codec: Callable[[], Codec] = lambda: Codec.NONE,
        performer: Performer[S] | None = None,
    ) -> None:
        # Selects the record types: "group", "transaction".
        self.kind = kind
        self.topic = topic
        self.partition_count = partition_count
        self._replicas = replicas
        self._clock = clock
        self._new_state = new_state
        self._timeout_ms = timeout_ms
        self._load_buffer_bytes = load_buffer_bytes
        self._codec = codec
        self._performer = performer
        self._shards: dict[int, Shard[S]] = {}
        # Partitions of the shards that are loaded or being loaded.
        self._partitions: dict[int, Partition] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._loading_states: dict[int, S] = {}

    # Look-ups

    def index_of(self, key: str) -> int:
        """Returns the partition of a group or a transactional id."""
        return _partition_for_id(key, self.partition_count())

    def shard(self, key: str) -> Shard[S]:
        return self.shard_at(self.index_of(key))

    def shard_at(self, index: int) -> Shard[S]:
        shard = self._shards.get(index)
        if shard is None:
            if index in self._loading:
                raise Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self.topic}-{index} is being loaded")
            raise Refusal(ErrorCode.NOT_COORDINATOR, f"{self.topic}-{index} is not coordinated here")
        return shard

    @property
    def shards(self) -> Iterator[Shard[S]]:
        """The loaded shards."""
        return iter(list(self._shards.values()))

    @property
    def states(self) -> list[S]:
        """The states of the loaded shards, and those of loading shards as far as they are replayed."""
        return [*(shard.state for shard in self._shards.values()), *self._loading_states.values()]

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    # Markers

    def end_transaction(
        self, index: int, producer: ProducerIdAndEpoch, coordinator_epoch: int, *, commit: bool
    ) -> Promise[None] | None:
        """Writes the marker that ends a producer's transaction to a shard's partition, and updates the state."""
        shard = self.shard_at(index)
        log = shard.log
        assert isinstance(log, PartitionLog)
        return shard.write(
            lambda: log.append_marker(producer, coordinator_epoch, commit=commit),
            lambda: shard.state.replay_end_txn(producer.producer_id, commit=commit),
        )

    # Following the metadata

    def start(self) -> None:
        """Loads the shards of all partitions that this broker leads at its start."""
        for partition in self._replicas:
            if partition.topic == self.topic:
                self._follow(partition.index)

    def apply(self, changes: ReplicaChanges) -> None:
        for topic, index in (*changes.deleted, *changes.leading, *changes.following):
            if topic == self.topic:
                self._follow(index)

    def _follow(self, index: int) -> None:
        partition = self._replicas.get(self.topic, index)
        if partition is None or not partition.is_leader or partition.log is None:
            self._drop(index, f"{self.topic}-{index} is not coordinated here any more")
            return
        if self._partitions.get(index) is not partition:
            self._drop(index, f"{self.topic}-{index} is being loaded again")
            self._partitions[index] = partition
            state = self._new_state(index)
            if partition.log.end_offset == partition.log.start_offset:
                # The partition is empty, as after its creation: serve at once, so that the client needs no retry.
                state.loaded()
                self._begin(partition, state)
            else:
                self._loading_states[index] = state
                self._loading[index] = asyncio.get_running_loop().create_task(self._load(partition, state))
        # Re-elected without having lost the leadership: the shard is up to date.

    async def _load(self, partition: Partition, state: S) -> None:
        index, name = partition.index, f"{self.topic}-{partition.index}"
        log = partition.log
        assert log is not None
        began = self._clock.monotonic()
        try:
            records = await load(self.kind, name, log, state, self._clock, read_bytes=self._load_buffer_bytes())
        except DiskError as error:
            self._replicas.disk_failed(error)
            return
        except (Refusal, CorruptBatch) as error:
            _log.error("%s cannot be loaded, so its groups or transactions are unavailable: %s", name, error)
            return
        except Exception:  # noqa: BLE001 - our bug; other shards go on
            _log.exception("%s cannot be loaded, so its groups or transactions are unavailable", name)
            return
        finally:
            if self._loading.get(index) is asyncio.current_task():
                del self._loading[index], self._loading_states[index]
        _log.info("Loaded %s: %d records in %.2f s", name, records, self._clock.monotonic() - began)
        self._begin(partition, state)

    def _begin(self, partition: Partition, state: S) -> None:
        log = PartitionLog(partition, self._clock, self._replicas.disk_failed, self._codec())
        shard = self._shards[partition.index] = Shard(state, log, self._clock, self._timeout_ms, self._performer)
        shard.loaded()

    def _drop(self, index: int, why: str) -> None:
        self._partitions.pop(index, None)
        self._loading_states.pop(index, None)
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close(Refusal(ErrorCode.NOT_COORDINATOR, why))

    def stop(self) -> None:
        """Drops all shards, so that no more decisions are made."""
        for index in [*self._loading, *self._shards]:
            self._drop(index, "the node stops")
