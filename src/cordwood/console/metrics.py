"""All metrics of a node, on one page. docs/metrics.md lists them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from cordwood import __version__
from cordwood.broker.broker import Broker
from cordwood.log.dirs.directory import LogDirectory
from cordwood.net.limits import Counts
from cordwood.node import Node
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError, Usage
from cordwood.runtime.process import process_start_s, process_usage
from cordwood.wire.records import COMPILED

from .controller_metrics import ControllerMetrics
from .exposition import Exposition, Labels
from .lag_metrics import write_lag
from .loop_lag import LoopLag
from .quorum_metrics import write_quorum
from .replication_metrics import ReplicationFigures
from .request_metrics import RequestMetrics
from .topic_metrics import TopicMetrics

# Partitions and lines processed per turn of the loop: about a millisecond.
_PER_TURN = 500
_OF_A_PARTITION = (
    ("cordwood_partition_log_start_offset", "The first offset of a partition."),
    ("cordwood_partition_log_end_offset", "The offset that the next record of a partition gets."),
    ("cordwood_partition_high_watermark", "The high watermark of a partition."),
    ("cordwood_partition_log_size_bytes", "The size of a partition's log on this broker."),
)


class Metrics:
    """Metrics of a node, which is started with `requests` as its measures."""

    def __init__(self, clock: Clock) -> None:
        self.requests = RequestMetrics(clock.monotonic)
        self._topics = TopicMetrics()
        self._controllers = ControllerMetrics()
        self._loop_lag = LoopLag(clock)
        self._process_start_s = process_start_s()

    def stop(self) -> None:
        self._loop_lag.stop()

    async def page(self, node: Node, *, with_partitions: bool = False) -> bytes:
        """The page of a started node. Yields to the loop in between, so that ten thousand partitions do not block
        it."""
        page = Exposition()
        page.gauge(
            "cordwood_info",
            "Always 1; the labels carry the version and whether records run compiled.",
            (
                (
                    ("version", __version__),
                    ("records", "compiled" if COMPILED else "pure Python"),
                    ("node_id", str(node.config.node_id)),
                    ("cluster_id", node.cluster_id),
                ),
                1,
            ),
        )
        self.requests.write(page)
        _write_connections(page, node)
        self._write_loop(page)
        self._write_process(page)
        write_quorum(page, node.quorum)
        page.gauge(
            "kafka_server_brokermetadatametrics_metadata_apply_error_count",
            "How often a part of this node failed to apply a change of the metadata: each is a bug, and is logged.",
            ((), node.loader.publishing_errors),
        )
        if node.controller_role is not None:
            await self._controllers.write(page, node.controller_role.controller)
        if node.broker_role is not None:
            broker = node.broker_role.broker
            _write_broker(page, broker)
            _write_directories(page, broker)
            await self._write_partitions(page, broker, with_partitions)
            await write_lag(page, broker)
        return page.encode()

    def _write_loop(self, page: Exposition) -> None:
        page.histogram(
            "cordwood_loop_lag_seconds",
            "Delay of an event loop timer, sampled four times a second.",
            ((), self._loop_lag.lags),
        )

    def _write_process(self, page: Exposition) -> None:
        usage = process_usage()
        page.counter("process_cpu_seconds_total", "User and system time.", ((), usage.cpu_seconds))
        if usage.resident_bytes is not None:
            page.gauge("process_resident_memory_bytes", "Memory in use.", ((), usage.resident_bytes))
        if usage.open_descriptors is not None:
            page.gauge("process_open_fds", "Open file descriptors.", ((), usage.open_descriptors))
        page.gauge("process_max_fds", "The limit on open file descriptors.", ((), usage.max_descriptors))
        if self._process_start_s is not None:
            page.gauge(
                "process_start_time_seconds",
                "Start time of the process, in seconds since the epoch.",
                ((), self._process_start_s),
            )

    async def _write_partitions(self, page: Exposition, broker: Broker, with_partitions: bool) -> None:
        partitions = list(broker.replicas)
        bytes_by_topic: Counter[str] = Counter()
        led = offline = 0
        replication = ReplicationFigures()
        figures: list[tuple[Labels, tuple[int, ...]]] = []
        for number, partition in enumerate(partitions):
            if number % _PER_TURN == 0:
                await asyncio.sleep(0)
            log = partition.log
            led += partition.is_leader and log is not None
            replication.count(partition)
            if log is None:
                offline += 1
                continue
            size = log.size
            bytes_by_topic[partition.topic] += size
            if with_partitions:
                labels = (("topic", partition.topic), ("partition", str(partition.index)))
                figures.append((labels, (log.start_offset, log.end_offset, log.high_watermark, size)))
        page.gauge("cordwood_partitions", "Partitions with a replica on this broker.", ((), len(partitions)))
        page.gauge("cordwood_partitions_led", "Partitions led by this broker.", ((), led))
        page.gauge("cordwood_partitions_offline", "Partitions whose log directory has failed.", ((), offline))
        replication.write(page, broker, offline)
        page.gauge(
            "cordwood_log_size_bytes", "The total size of the logs on this broker.", ((), bytes_by_topic.total())
        )
        self._topics.write(page, broker, bytes_by_topic)
        if with_partitions:
            for column, (name, about) in enumerate(_OF_A_PARTITION):
                await _write_gauge(page, name, about, [(labels, row[column]) for labels, row in figures])


def _write_connections(page: Exposition, node: Node) -> None:
    counts = sum((server.counts for server in node.servers), Counts())
    by_listener: Counter[str] = Counter(dict.fromkeys(node.addresses, 0))
    in_work = held_bytes = 0
    for connection in (connection for server in node.servers for connection in server):
        by_listener[connection.info.listener] += 1
        in_work += connection.in_work
        held_bytes += connection.held_bytes
    page.gauge(
        "cordwood_connections",
        "Open connections, by listener.",
        *(((("listener", name),), count) for name, count in sorted(by_listener.items())),
    )
    page.counter("cordwood_connections_accepted_total", "Connections accepted.", ((), counts.accepted))
    page.counter(
        "cordwood_connections_refused_total",
        "Connections rejected because of max.connections.per.ip.",
        ((), counts.refused),
    )
    page.counter(
        "cordwood_connections_closed_idle_total",
        "Connections closed because of connections.max.idle.ms.",
        ((), counts.closed_idle),
    )
    page.gauge("cordwood_requests_in_work", "Requests in flight.", ((), in_work))
    page.gauge("cordwood_held_bytes", "Bytes of in-flight requests and unsent responses.", ((), held_bytes))
    page.counter(
        "cordwood_bad_frames_total", "Connections closed because of an invalid frame size.", ((), counts.bad_frames)
    )
    page.counter(
        "cordwood_bad_requests_total",
        "Connections closed because of a malformed or unsupported request.",
        ((), counts.bad_requests),
    )
    page.counter(
        "cordwood_handler_failures_total",
        "Connections closed because of an internal error: each is a bug, and is logged.",
        ((), counts.handler_failures),
    )


def _write_broker(page: Exposition, broker: Broker) -> None:
    page.gauge("cordwood_topics", "Topics of the cluster.", ((), len(broker.image.topics)))
    page.gauge(
        "cordwood_metadata_offset",
        "The metadata log offset that this broker has applied.",
        ((), broker.image.covers.offset),
    )
    page.gauge("cordwood_fetch_sessions", "Cached fetch sessions.", ((), len(broker.fetch_sessions)))
    page.gauge(
        "cordwood_fetch_session_partitions",
        "Partitions in all cached fetch sessions.",
        ((), broker.fetch_sessions.partitions),
    )
    page.counter(
        "cordwood_fetch_sessions_evicted_total",
        "Fetch sessions evicted from the cache.",
        ((), broker.fetch_sessions.evicted),
    )
    flusher = broker.replicas.flusher
    page.counter("cordwood_flush_rounds_total", "Group flushes; one serves many requests.", ((), flusher.rounds))
    page.counter("cordwood_log_flushes_total", "Logs flushed by group flushes.", ((), flusher.flushes))


def _write_directories(page: Exposition, broker: Broker) -> None:
    directories = broker.replicas.directories.directories

    def counter(name: str, about: str, figure: Callable[[LogDirectory], int]) -> None:
        page.counter(name, about, *(((("directory", dir.disk.root),), figure(dir)) for dir in directories))

    page.gauge(
        "cordwood_log_directory_online",
        "1 while a log directory is online, 0 once it has failed.",
        *(((("directory", dir.disk.root),), int(not dir.is_offline)) for dir in directories),
    )
    usages = [(dir.disk.root, usage) for dir in directories if (usage := _usage(dir)) is not None]
    page.gauge(
        "cordwood_log_directory_free_bytes",
        "Free space on the file system of a log directory.",
        *(((("directory", root),), usage.free_bytes) for root, usage in usages),
    )
    page.gauge(
        "cordwood_log_directory_total_bytes",
        "The size of the file system of a log directory.",
        *(((("directory", root),), usage.total_bytes) for root, usage in usages),
    )
    counter(
        "cordwood_log_recovered_bytes_total",
        "Bytes checked during recovery.",
        lambda dir: dir.metrics.recovered_bytes,
    )
    counter(
        "cordwood_log_torn_bytes_total",
        "Bytes of incomplete writes truncated during recovery.",
        lambda dir: dir.metrics.torn_bytes,
    )
    counter(
        "cordwood_log_corrupt_bytes_total",
        "Flushed bytes found damaged during recovery.",
        lambda dir: dir.metrics.corrupt_bytes,
    )
    counter(
        "cordwood_cleaner_records_total",
        "Records read by compaction.",
        lambda dir: dir.metrics.cleaned_records,
    )
    counter(
        "cordwood_cleaner_read_bytes_total",
        "Bytes read by compaction.",
        lambda dir: dir.metrics.cleaned_bytes_read,
    )
    counter(
        "cordwood_cleaner_written_bytes_total",
        "Bytes written by compaction.",
        lambda dir: dir.metrics.cleaned_bytes_written,
    )


async def _write_gauge(page: Exposition, name: str, about: str, samples: list[tuple[Labels, int]]) -> None:
    page.gauge(name, about)
    for start in range(0, len(samples), _PER_TURN):
        page.more(name, samples[start : start + _PER_TURN])
        await asyncio.sleep(0)


def _usage(directory: LogDirectory) -> Usage | None:
    if directory.is_offline:
        return None
    try:
        return directory.disk.usage()
    except DiskError:
        # It has just failed; the next write takes it offline.
        return None
