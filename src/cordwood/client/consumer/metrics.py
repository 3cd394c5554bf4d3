"""A consumer's metrics, named as Kafka's `consumer-fetch-manager-metrics`; sans-IO."""

from cordwood.client.consumer.subscription import Subscription
from cordwood.client.meters import Distribution, Meter


class ConsumerMetrics:
    """Times in milliseconds, sizes in bytes."""

    def __init__(self, now_s: float) -> None:
        self._records = Meter(now_s)
        self._bytes = Meter(now_s)
        self._fetches = Meter(now_s)
        self._fetch_latency = Distribution(now_s)
        self._fetch_size = Distribution(now_s)
        self._polled_s: float | None = None
        self._between_polls = Distribution(now_s)

    def polled(self, now_s: float) -> None:
        if self._polled_s is not None:
            self._between_polls.add((now_s - self._polled_s) * 1000, now_s)
        self._polled_s = now_s

    def consumed(self, records: int, now_s: float) -> None:
        self._records.add(records, now_s)

    def fetched(self, size_bytes: int, latency_s: float, now_s: float) -> None:
        self._fetches.add(1, now_s)
        self._bytes.add(size_bytes, now_s)
        self._fetch_latency.add(latency_s * 1000, now_s)
        self._fetch_size.add(size_bytes, now_s)

    def read(self, subscription: Subscription, now_s: float, *, read_committed: bool) -> dict[str, float]:
        """Includes the lag of each partition as `records-lag.<topic>-<partition>`."""
        lags = {
            partition: lag
            for partition, state in sorted(subscription.states.items())
            if (lag := state.lag(read_committed=read_committed)) is not None
        }
        return {
            "records-consumed-total": self._records.total,
            "records-consumed-rate": self._records.rate(now_s),
            "bytes-consumed-total": self._bytes.total,
            "bytes-consumed-rate": self._bytes.rate(now_s),
            "fetch-total": self._fetches.total,
            "fetch-rate": self._fetches.rate(now_s),
            "fetch-latency-avg": self._fetch_latency.average(now_s),
            "fetch-latency-max": self._fetch_latency.greatest(now_s),
            "fetch-size-avg": self._fetch_size.average(now_s),
            "fetch-size-max": self._fetch_size.greatest(now_s),
            "time-between-poll-avg": self._between_polls.average(now_s),
            "time-between-poll-max": self._between_polls.greatest(now_s),
            "last-poll-seconds-ago": -1.0 if self._polled_s is None else now_s - self._polled_s,
            "records-lag-max": float(max(lags.values(), default=0)),
            "assigned-partitions": float(len(subscription.states)),
            **{f"records-lag.{partition}": float(lag) for partition, lag in lags.items()},
        }
