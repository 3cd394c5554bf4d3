import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.spark.errors import BadOption
from cordwood.spark.options import Options
from cordwood.spark.source.options import SourceOptions, batch_options, stream_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def batch(**options: str) -> SourceOptions:
    return batch_options({**SERVERS, "subscribe": "orders", **options})


def stream(**options: str) -> SourceOptions:
    return stream_options({**SERVERS, "subscribe": "orders", **options})


def test_names_of_options_are_taken_in_any_case() -> None:
    read = batch_options({**SERVERS, "SUBSCRIBE": "orders", "FailOnDataLoss": "FALSE"})
    assert read.topics.names == ("orders",)
    assert not read.fail_on_data_loss


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(BadOption, match="there is no option startingOffset for a read; did you mean startingOffsets"):
        batch(startingOffset="earliest")


def test_an_option_like_nothing_known_is_refused_too() -> None:
    with pytest.raises(BadOption, match=r"no option zzzzzzzzz .* begin with kafka\."):
        batch(zzzzzzzzz="1")


def test_options_with_the_kafka_prefix_go_to_the_client() -> None:
    read = batch_options({**SERVERS, "subscribe": "orders", "kafka.client.id": "job", "Kafka.Fetch.Min.Bytes": "5"})
    assert read.client == {"bootstrap.servers": "localhost:9092", "client.id": "job", "fetch.min.bytes": "5"}


def test_a_setting_that_the_client_does_not_know_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(BadOption, match=r"there is no setting fetch.min.byte; is it fetch.min.bytes\?"):
        batch(**{"kafka.fetch.min.byte": "5"})


def test_a_read_without_servers_says_which_option_is_missing() -> None:
    with pytest.raises(BadOption, match=r"kafka\.bootstrap\.servers is missing"):
        batch_options({"subscribe": "orders"})


@pytest.mark.parametrize(
    "name", ["fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix", "kafka.group.id"]
)
def test_options_of_the_connector_that_have_no_effect_are_taken_with_a_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert batch(**{name: "3"}).topics == batch().topics
    assert f"{name} has no effect: " in caplog.text


@pytest.mark.parametrize("name", ["key.deserializer", "auto.offset.reset", "enable.auto.commit", "interceptor.classes"])
def test_client_settings_controlled_by_spark_cannot_be_set(name: str) -> None:
    with pytest.raises(BadOption, match=f"kafka.{name} cannot be set"):
        batch(**{f"kafka.{name}": "x"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "none is set"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign are set"),
        ({"subscribe": " , "}, "expected comma-separated topic names"),
        ({"subscribePattern": "("}, "not a valid regular expression"),
        ({"assign": "[1]"}, "expected JSON such as"),
        ({"assign": '{"a":["0"]}'}, "expected JSON such as"),
    ],
)
def test_one_choice_of_topics_is_needed_and_must_make_sense(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        batch_options({**SERVERS, **given})


def test_partitions_can_be_assigned_one_by_one() -> None:
    read = batch_options({**SERVERS, "assign": '{"b":[1,0],"a":[3]}'})
    assert read.topics.assigned == (TopicPartition("a", 3), TopicPartition("b", 0), TopicPartition("b", 1))


def test_only_committed_records_are_read_by_default() -> None:
    assert batch().read_committed
    assert not batch(isolation="read_uncommitted").read_committed
    assert not batch(**{"kafka.isolation.level": "read_uncommitted"}).read_committed


def test_two_isolations_that_differ_are_refused() -> None:
    with pytest.raises(BadOption, match="give one of them"):
        batch(isolation="read_committed", **{"kafka.isolation.level": "read_uncommitted"})


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadOption, match="endingOffsets is for batch reads"):
        stream(endingOffsets="latest")


def test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start() -> None:
    with pytest.raises(BadOption, match="startingOffsets cannot be latest"):
        batch(startingOffsets="latest")
    with pytest.raises(BadOption, match="endingOffsets cannot be earliest"):
        batch(endingOffsets="earliest")
    with pytest.raises(BadOption, match=r"startingOffsets cannot have -1 \(latest\)"):
        batch(startingOffsets='{"orders":{"0":-1}}')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("failOnDataLoss", "perhaps"),
        ("isolation", "none"),
        ("startingTimestamp", "-5"),
        ("startingOffsets", '{"orders":{"0":-3}}'),
        ("startingOffsets", "begin"),
        ("startingOffsetsByTimestamp", '{"orders":5}'),
        ("maxTriggerDelay", "soon"),
        ("valueFormat", "xml"),
        ("valueSchema", "a INT"),
    ],
)
def test_a_value_that_will_not_do_is_refused_by_the_options_name(name: str, value: str) -> None:
    with pytest.raises(BadOption, match=name):
        stream(**{name: value})


def test_the_least_of_a_trigger_cannot_be_more_than_the_most() -> None:
    with pytest.raises(BadOption, match="more than maxOffsetsPerTrigger"):
        stream(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="5")


@pytest.mark.parametrize(
    ("text", "ms"), [("250", 250), ("250ms", 250), ("3s", 3_000), ("15m", 900_000), ("2h", 7_200_000)]
)
def test_durations_are_written_as_sparks_are(text: str, ms: int) -> None:
    assert Options({"maxTriggerDelay": text}, known={"maxTriggerDelay"}).duration_ms("maxTriggerDelay", 1) == ms
