"""A producer's metrics, named as Kafka's `producer-metrics`; sans-IO."""

from collections.abc import Iterable, Sequence

from cordwood.client.meters import Distribution, Meter
from cordwood.client.producer.batch import ProducerBatch

_METERS = (
    "record-send",
    "record-error",
    "record-retry",
    "batch-split",
    "request",
    "outgoing-byte",
    "buffer-exhausted",
)
_DISTRIBUTIONS = (
    "batch-size",
    "records-per-request",
    "record-queue-time",
    "record-size",
    "request-latency",
    "request-size",
    "produce-throttle-time",
)
# Durations of calls, given in nanoseconds.
_WAITS = (
    "bufferpool-wait",
    "metadata-wait",
    "flush",
    "txn-init",
    "txn-begin",
    "txn-send-offsets",
    "txn-commit",
    "txn-abort",
)


class ProducerMetrics:
    """Times in milliseconds, sizes in bytes."""

    def __init__(self, now_s: float) -> None:
        self._meters = {name: Meter(now_s) for name in _METERS}
        self._distributions = {name: Distribution(now_s) for name in _DISTRIBUTIONS}
        self._waited_s = dict.fromkeys(_WAITS, 0.0)
        self._started_s = now_s

    def sent(self, batches: Sequence[ProducerBatch], sizes_bytes: Iterable[int], now_s: float) -> None:
        """Records one request."""
        records = 0
        request_bytes = 0
        distributions = self._distributions
        for batch, size_bytes in zip(batches, sizes_bytes, strict=True):
            count = batch.record_count
            records += count
            request_bytes += size_bytes
            distributions["batch-size"].add(size_bytes, now_s)
            distributions["record-size"].add(batch.size_bytes / count, now_s)
            if batch.attempts == 0:
                distributions["record-queue-time"].add((now_s - batch.created_s) * 1000, now_s)
        self._meters["record-send"].add(records, now_s)
        self._meters["request"].add(1, now_s)
        self._meters["outgoing-byte"].add(request_bytes, now_s)
        distributions["records-per-request"].add(records, now_s)
        distributions["request-size"].add(request_bytes, now_s)

    def answered(self, latency_s: float, throttle_time_ms: int, now_s: float) -> None:
        self._distributions["request-latency"].add(latency_s * 1000, now_s)
        self._distributions["produce-throttle-time"].add(throttle_time_ms, now_s)

    def count(self, name: str, amount: int, now_s: float) -> None:
        """`record-error`, `record-retry`, `batch-split` or `buffer-exhausted`."""
        self._meters[name].add(amount, now_s)

    def waited(self, name: str, seconds: float) -> None:
        self._waited_s[name] += seconds

    def read(self, now_s: float) -> dict[str, float]:
        told: dict[str, float] = {}
        for name, meter in self._meters.items():
            told[f"{name}-rate"] = meter.rate(now_s)
            told[f"{name}-total"] = meter.total
        for name, distribution in self._distributions.items():
            told[f"{name}-avg"] = distribution.average(now_s)
            told[f"{name}-max"] = distribution.greatest(now_s)
        for name, seconds in self._waited_s.items():
            told[f"{name}-time-ns-total"] = seconds * 1e9
        elapsed_s = now_s - self._started_s
        told["bufferpool-wait-ratio"] = self._waited_s["bufferpool-wait"] / elapsed_s if elapsed_s > 0 else 0.0
        return told
