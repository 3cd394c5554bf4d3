"""Rates, averages and greatest values of a producer: those of the last half to whole minute."""

from math import isnan

from cordwood.client.meters import Distribution, Meter
from cordwood.client.producer.metrics import ProducerMetrics


def test_a_rate_is_by_the_time_since_the_start_at_first() -> None:
    meter = Meter(100.0)
    meter.add(50, 101.0)
    meter.add(50, 110.0)
    assert meter.rate(110.0) == 10.0


def test_a_rate_covers_the_last_minute_and_the_total_everything() -> None:
    meter = Meter(0.0)
    meter.add(900, 1.0)
    meter.add(30, 45.0)
    assert meter.rate(45.0) == 930 / 45
    assert meter.rate(75.0) == 30 / 45
    assert meter.rate(500.0) == 0.0
    assert meter.total == 930


def test_an_average_and_a_greatest_value_are_those_of_the_last_values() -> None:
    distribution = Distribution(0.0)
    assert isnan(distribution.average(0.0))
    distribution.add(10, 1.0)
    distribution.add(30, 31.0)
    assert (distribution.average(59.0), distribution.greatest(59.0)) == (20, 30)
    assert (distribution.average(61.0), distribution.greatest(61.0)) == (30, 30)
    assert isnan(distribution.greatest(200.0))


def test_reported_features_have_kafkas_names() -> None:
    told = ProducerMetrics(0.0).read(1.0)
    for name in (
        "record-send-rate",
        "record-send-total",
        "record-error-total",
        "record-retry-rate",
        "batch-size-avg",
        "batch-size-max",
        "batch-split-total",
        "records-per-request-avg",
        "record-queue-time-avg",
        "request-latency-avg",
        "request-latency-max",
        "produce-throttle-time-avg",
        "bufferpool-wait-ratio",
        "bufferpool-wait-time-ns-total",
        "buffer-exhausted-total",
        "metadata-wait-time-ns-total",
        "flush-time-ns-total",
        "txn-commit-time-ns-total",
    ):
        assert name in told
