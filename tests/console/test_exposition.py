"""The text format, read by Prometheus's own parser."""

from prometheus_client.parser import text_string_to_metric_families

from cordwood.console.exposition import Exposition, Histogram
from cordwood.console.response_errors import errors_in
from cordwood.wire.messages.describe_cluster import DescribeClusterResponse
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from cordwood.wire.messages.sync_group import SyncGroupResponse


def test_labels_are_read_as_they_were_written() -> None:
    path = 'a "quoted" \\path\\ of\ntwo lines, ünïcode'
    page = Exposition()
    page.gauge("size_bytes", "About it.", ((("path", path), ("other", "")), 5))
    (family,) = text_string_to_metric_families(page.encode().decode())
    assert family.samples[0].labels == {"path": path, "other": ""}
    assert family.samples[0].value == 5


def test_buckets_of_a_histogram_hold_all_that_is_at_most_their_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(seconds)
    page = Exposition()
    page.histogram("wait_seconds", "About it.", ((), histogram))
    (family,) = text_string_to_metric_families(page.encode().decode())
    figures = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert figures == {
        ("wait_seconds_bucket", "0.1"): 2,
        ("wait_seconds_bucket", "1.0"): 3,
        ("wait_seconds_bucket", "+Inf"): 4,
        ("wait_seconds_sum", None): 7.65,
        ("wait_seconds_count", None): 4,
    }


def test_errors_are_found_wherever_a_response_has_them() -> None:
    response = FetchResponse(
        error_code=70,
        responses=[
            FetchableTopicResponse(partitions=[PartitionData(error_code=1), PartitionData()]),
            FetchableTopicResponse(partitions=[PartitionData(error_code=6)]),
        ],
    )
    assert errors_in(response) == [70, 1, 6]
    assert errors_in(SyncGroupResponse(error_code=27)) == [27]
    assert errors_in(DescribeClusterResponse()) == []
