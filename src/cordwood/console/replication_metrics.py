"""Figures of replication, under the names that Kafka's JMX beans have in Prometheus, so that dashboards fit."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.replica.partition import Partition

from .exposition import Exposition

_MANAGER = "kafka_server_replicamanager_"


class ReplicationFigures:
    """Metrics of the partitions that a broker leads."""

    def __init__(self) -> None:
        self._under_replicated = 0
        self._under_min_isr = 0
        self._at_min_isr = 0
        self._reassigning = 0

    def count(self, partition: Partition) -> None:
        leader = partition.leader
        if leader is None:
            return
        state = partition.state
        # A replica that is being added is not missing yet.
        wanted = set(state.replicas) - set(state.adding_replicas)
        self._under_replicated += not wanted <= set(leader.isr)
        self._under_min_isr += leader.is_under_min_isr
        self._at_min_isr += leader.is_at_min_isr
        self._reassigning += bool(state.adding_replicas or state.removing_replicas)

    def write(self, page: Exposition, broker: Broker, offline: int) -> None:
        changes = broker.isr_changes
        for name, about, figure in (
            ("underreplicatedpartitions", "Led partitions with a replica that is not in sync.", self._under_replicated),
            ("underminisrpartitioncount", "Led partitions below min.insync.replicas.", self._under_min_isr),
            ("atminisrpartitioncount", "Led partitions with exactly min.insync.replicas in sync.", self._at_min_isr),
            ("reassigningpartitions", "Led partitions whose replicas are being changed.", self._reassigning),
            ("offlinereplicacount", "Replicas whose log directory has failed.", offline),
        ):
            page.gauge(_MANAGER + name, about, ((), figure))
        page.counter(
            _MANAGER + "isrshrinks_total",
            "Times that an in-sync set got smaller on this leader's demand.",
            ((), changes.shrinks),
        )
        page.counter(
            _MANAGER + "isrexpands_total",
            "Times that an in-sync set got larger on this leader's demand.",
            ((), changes.expands),
        )
        page.gauge(
            "kafka_server_replicafetchermanager_maxlag",
            "The largest lag of a replica, in records.",
            ((), broker.fetchers.max_lag),
        )
