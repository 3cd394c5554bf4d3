"""All kinds of load at once, and the check that nothing was lost, duplicated, reordered or torn."""

from __future__ import annotations

from types import TracebackType

from cordwood import TopicPartition
from tests.interop.cluster_state import await_led, connected, create, partitions_of
from tests.interop.load import ExactlyOnceCopy, IdempotentLoad, Load, TransactionalLoad, read_all
from tests.interop.mixed_cluster import MixedCluster
from tests.interop.waiting import until

PARTITIONS = 3
ORDERS = "orders"
TRANSFERS = "transfers"
# By the protocol of the group that copies the orders there.
COPIES = {"classic": "orders-by-classic", "consumer": "orders-by-consumer"}
TOPICS = {ORDERS, TRANSFERS, *COPIES.values()}
# How much of it shows that load continues.
_MORE = 10
_INTERNAL = {"__consumer_offsets", "__transaction_state"}


class Workload:
    """An idempotent producer, one with transactions, and two that copy exactly once, in groups of both protocols."""

    def __init__(self, cluster: MixedCluster, factor: int = 3) -> None:
        for topic in sorted(TOPICS):
            create(cluster, topic, PARTITIONS, factor)
        await_led(cluster, TOPICS)
        self.orders = IdempotentLoad(cluster.bootstrap, ORDERS, PARTITIONS)
        self.transfers = TransactionalLoad(cluster.bootstrap, TRANSFERS, PARTITIONS)
        self.copies = [
            ExactlyOnceCopy(cluster.bootstrap, ORDERS, topic, protocol) for protocol, topic in COPIES.items()
        ]
        self._cluster = cluster
        self._loads: list[Load] = [*self.copies, self.orders, self.transfers]

    def __enter__(self) -> Workload:
        for load in self._loads:
            load.start()
        self.goes_on()
        assert {topic for topic, _ in partitions_of(self._cluster)} >= _INTERNAL
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for load in self._loads:
            load.stop()

    def goes_on(self) -> None:
        """Returns once each of the loads has got more done."""
        ends = [(load, load.count + _MORE) for load in self._loads]
        until(lambda: all(load.count >= end for load, end in ends), timeout_s=180)

    @property
    def longest_pauses_s(self) -> dict[str, float]:
        """The longest time between two acknowledgements, by load."""
        return {load.name: round(load.longest_pause_s, 2) for load in self._loads}

    def finish(self) -> None:
        """Stops the producers, and the copies once they have copied everything."""
        self.orders.stop()
        self.transfers.stop()
        for copy in self.copies:
            until(self._has_copied_all, copy, timeout_s=180)
            copy.stop()

    def _has_copied_all(self, copy: ExactlyOnceCopy) -> bool:
        with connected(self._cluster) as client:
            committed = client.list_consumer_group_offsets([copy.group])[copy.group]
        return all(
            committed.get(TopicPartition(ORDERS, index)) is not None
            and committed[TopicPartition(ORDERS, index)].offset == len(self.orders.acked[index])
            for index in range(PARTITIONS)
        )

    def verify(self) -> None:
        bootstrap = self._cluster.bootstrap
        expected = {index: [f"{index}:{number}" for number in numbers] for index, numbers in self.orders.acked.items()}
        assert read_all(bootstrap, ORDERS, PARTITIONS) == expected
        for copy in COPIES.values():
            assert read_all(bootstrap, copy, PARTITIONS) == expected, copy
        transfers = read_all(bootstrap, TRANSFERS, PARTITIONS)
        found = [int(value) for value in transfers[0]]
        assert transfers == dict.fromkeys(range(PARTITIONS), transfers[0])
        assert found == sorted(set(found))
        assert set(self.transfers.committed) <= set(found)
        assert set(found) <= {*self.transfers.committed, *self.transfers.unknown}
