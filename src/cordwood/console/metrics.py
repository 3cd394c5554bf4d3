"""All metrics of a node, on one page. docs/metrics.md lists them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from cordwood import __version__
from cordwood.log.directory import LogDirectory
from cordwood.net.serving import Counts
from cordwood.node import Node
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError, Usage
from cordwood.runtime.process import process_start_s, process_usage

from .exposition import Exposition, Labels
from .lag_metrics import write_lag
from .loop_lag import LoopLag
from .request_metrics import RequestMetrics
from .topic_metrics import TopicMetrics

# Partitions that are looked at, and lines that are written, in one turn of the loop: a millisecond or so.
_PER_TURN = 500
_OF_A_PARTITION = (
    ("cordwood_partition_log_start_offset", "The first offset of a partition."),
    ("cordwood_partition_log_end_offset", "The offset that the next record of a partition gets."),
    ("cordwood_partition_high_watermark", "Up to where a partition is acknowledged and can be read."),
    ("cordwood_partition_log_size_bytes", "The size of a partition's log here."),
)


class Metrics:
    """Of a node that has started: its requests are measured from here on."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._requests = RequestMetrics(clock.monotonic)
        node.dispatch.measure(self._requests)
        node.controller_role.dispatch.measure(self._requests)
        self._topics = TopicMetrics(node.broker)
        self._loop_lag = LoopLag(clock)
        self._process_start_s = process_start_s()

    def stop(self) -> None:
        self._loop_lag.stop()

    async def page(self, *, with_partitions: bool = False) -> bytes:
        """Gives the loop its turns on the way, so that ten thousand partitions do not hold it."""
        page = Exposition()
        node = self._node
        page.gauge(
            "cordwood_info",
            "Always 1; what runs here.",
            (
                (
                    ("version", __version__),
                    ("node_id", str(node.broker.id)),
                    ("cluster_id", node.broker.cluster_id),
                ),
                1,
            ),
        )
        self._requests.write(page)
        self._write_connections(page)
        self._write_loop(page)
        self._write_broker(page)
        self._write_directories(page)
        self._write_process(page)
        await self._write_partitions(page, with_partitions)
        await write_lag(page, node.broker)
        return page.encode()

    def _write_connections(self, page: Exposition) -> None:
        counts = sum((server.counts for server in self._node.servers), Counts())
        by_listener: Counter[str] = Counter(dict.fromkeys(self._node.addresses, 0))
        in_work = held_bytes = 0
        for connection in (connection for server in self._node.servers for connection in server):
            by_listener[connection.info.listener] += 1
            in_work += connection.in_work
            held_bytes += connection.held_bytes
        page.gauge(
            "cordwood_connections",
            "Connections that are open, by listener.",
            *(((("listener", name),), count) for name, count in sorted(by_listener.items())),
        )
        page.counter("cordwood_connections_accepted_total", "Connections that were accepted.", ((), counts.accepted))
        page.counter(
            "cordwood_connections_refused_total",
            "Connections closed at once for max.connections.per.ip.",
            ((), counts.refused),
        )
        page.counter(
            "cordwood_connections_closed_idle_total",
            "Connections closed for connections.max.idle.ms.",
            ((), counts.closed_idle),
        )
        page.gauge("cordwood_requests_in_work", "Requests that are begun and not answered.", ((), in_work))
        page.gauge(
            "cordwood_held_bytes", "Bytes of requests in work and of responses that are not sent.", ((), held_bytes)
        )
        page.counter(
            "cordwood_bad_frames_total", "Connections closed for a frame of a wrong size.", ((), counts.bad_frames)
        )
        page.counter(
            "cordwood_bad_requests_total",
            "Connections closed for a request that cannot be read or is not served.",
            ((), counts.bad_requests),
        )
        page.counter(
            "cordwood_handler_failures_total",
            "Connections closed for an error of the node's own: each is a bug, and in the log.",
            ((), counts.handler_failures),
        )

    def _write_loop(self, page: Exposition) -> None:
        page.histogram(
            "cordwood_loop_lag_seconds",
            "How late a timer of the event loop was, taken four times a second.",
            ((), self._loop_lag.lags),
        )

    def _write_broker(self, page: Exposition) -> None:
        broker = self._node.broker
        page.gauge("cordwood_topics", "Topics of the cluster.", ((), len(broker.image.topics)))
        page.gauge(
            "cordwood_metadata_offset",
            "Up to where this broker goes by the metadata log.",
            ((), broker.image.covers.offset),
        )
        page.gauge("cordwood_fetch_sessions", "Fetch sessions that are kept.", ((), len(broker.fetch_sessions)))
        page.gauge(
            "cordwood_fetch_session_partitions",
            "Partitions in all fetch sessions.",
            ((), broker.fetch_sessions.partitions),
        )
        page.counter(
            "cordwood_fetch_sessions_evicted_total",
            "Fetch sessions that had to go for others.",
            ((), broker.fetch_sessions.evicted),
        )
        flusher = broker.replicas.flusher
        page.counter(
            "cordwood_flush_rounds_total", "Rounds of flushes; one serves many requests.", ((), flusher.rounds)
        )
        page.counter("cordwood_log_flushes_total", "Logs flushed in those rounds.", ((), flusher.flushes))

    def _write_directories(self, page: Exposition) -> None:
        directories = self._node.broker.replicas.directories.directories

        def counter(name: str, about: str, figure: Callable[[LogDirectory], int]) -> None:
            page.counter(name, about, *(((("directory", dir.disk.root),), figure(dir)) for dir in directories))

        page.gauge(
            "cordwood_log_directory_online",
            "Whether a log directory is in use: 0 once it has failed.",
            *(((("directory", dir.disk.root),), int(not dir.is_offline)) for dir in directories),
        )
        usages = [(dir.disk.root, usage) for dir in directories if (usage := _usage(dir)) is not None]
        page.gauge(
            "cordwood_log_directory_free_bytes",
            "What is free on the file system of a log directory.",
            *(((("directory", root),), usage.free_bytes) for root, usage in usages),
        )
        page.gauge(
            "cordwood_log_directory_total_bytes",
            "The size of the file system of a log directory.",
            *(((("directory", root),), usage.total_bytes) for root, usage in usages),
        )
        counter(
            "cordwood_log_recovered_bytes_total", "Bytes checked at the start.", lambda dir: dir.metrics.recovered_bytes
        )
        counter(
            "cordwood_log_torn_bytes_total",
            "Bytes of unfinished writes, cut off at the start.",
            lambda dir: dir.metrics.torn_bytes,
        )
        counter(
            "cordwood_log_corrupt_bytes_total",
            "Flushed bytes that were found damaged at the start.",
            lambda dir: dir.metrics.corrupt_bytes,
        )
        counter(
            "cordwood_cleaner_records_total",
            "Records that compaction has read.",
            lambda dir: dir.metrics.cleaned_records,
        )
        counter(
            "cordwood_cleaner_read_bytes_total",
            "Bytes that compaction has read.",
            lambda dir: dir.metrics.cleaned_bytes_read,
        )
        counter(
            "cordwood_cleaner_written_bytes_total",
            "Bytes that compaction has written.",
            lambda dir: dir.metrics.cleaned_bytes_written,
        )

    def _write_process(self, page: Exposition) -> None:
        usage = process_usage()
        page.counter("process_cpu_seconds_total", "User and system time.", ((), usage.cpu_seconds))
        if usage.resident_bytes is not None:
            page.gauge("process_resident_memory_bytes", "Memory in use.", ((), usage.resident_bytes))
        if usage.open_descriptors is not None:
            page.gauge("process_open_fds", "Open file descriptors.", ((), usage.open_descriptors))
        page.gauge("process_max_fds", "How many there may be.", ((), usage.max_descriptors))
        if self._process_start_s is not None:
            page.gauge("process_start_time_seconds", "Since the epoch.", ((), self._process_start_s))

    async def _write_partitions(self, page: Exposition, with_partitions: bool) -> None:
        partitions = list(self._node.broker.replicas)
        bytes_by_topic: Counter[str] = Counter()
        led = offline = 0
        figures: list[tuple[Labels, tuple[int, ...]]] = []
        for number, partition in enumerate(partitions):
            if number % _PER_TURN == 0:
                await asyncio.sleep(0)
            log = partition.log
            led += partition.is_leader and log is not None
            if log is None:
                offline += 1
                continue
            size = log.size
            bytes_by_topic[partition.topic] += size
            if with_partitions:
                labels = (("topic", partition.topic), ("partition", str(partition.index)))
                figures.append((labels, (log.start_offset, log.end_offset, log.high_watermark, size)))
        page.gauge("cordwood_partitions", "Partitions that have a replica here.", ((), len(partitions)))
        page.gauge("cordwood_partitions_led", "Partitions that are led here.", ((), led))
        page.gauge("cordwood_partitions_offline", "Partitions whose log directory has failed.", ((), offline))
        page.gauge("cordwood_log_size_bytes", "The size of all logs here.", ((), bytes_by_topic.total()))
        self._topics.write(page, bytes_by_topic)
        if with_partitions:
            for column, (name, about) in enumerate(_OF_A_PARTITION):
                await _write_gauge(page, name, about, [(labels, row[column]) for labels, row in figures])


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
