"""The metrics of the controller role, under the names that Kafka's have in Prometheus' usual JMX rules."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.controller.figures import FiguresReader

from .exposition import Exposition

_GAUGES = (
    ("active_controller_count", "1 on the active controller, 0 on the others."),
    ("active_broker_count", "Brokers that are registered and not fenced."),
    ("fenced_broker_count", "Brokers that are registered and fenced."),
    ("controlled_shutdown_broker_count", "Brokers in a controlled shutdown."),
    ("global_topic_count", "Topics of the cluster."),
    ("global_partition_count", "Partitions of the cluster."),
    ("offline_partitions_count", "Partitions without a leader."),
    ("preferred_replica_imbalance_count", "Partitions that are not led by their preferred replica."),
    ("last_applied_record_offset", "The last record of the metadata log that this node has applied."),
    ("last_committed_record_offset", "The last record of the metadata log that is known to be committed."),
)
_COUNTERS = (
    (
        "kafka_controller_kafkacontroller_newactivecontrollers_total",
        "How often this node became the active controller.",
        "new_active_controllers_count",
    ),
    (
        "kafka_controller_kafkacontroller_timedoutbrokerheartbeats_total",
        "Brokers that this controller fenced because their session ended.",
        "timed_out_broker_heartbeat_count",
    ),
    (
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Unclean elections: the new leader may lack records.",
        "unclean_leader_elections",
    ),
    (
        "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
        "Elections of leaders that were eligible and not in sync (KIP-966).",
        "elections_from_eligible_leader_replicas",
    ),
)


class ControllerMetrics:
    def __init__(self) -> None:
        self._reader: FiguresReader | None = None

    async def write(self, page: Exposition, controller: Controller) -> None:
        if self._reader is None:
            self._reader = FiguresReader(controller)
        figures = await self._reader.read()
        for name, about in _GAUGES:
            page.gauge(f"kafka_controller_kafkacontroller_{name.replace('_', '')}", about, ((), getattr(figures, name)))
        for metric, about, name in _COUNTERS:
            page.counter(metric, about, ((), getattr(figures, name)))
        page.summary(
            "kafka_controller_controllerstats_leaderelectionrateandtimems",
            "Partitions that got another leader, and milliseconds from the decision until it was committed.",
            figures.leader_elections,
            figures.leader_election_time_ms,
        )
