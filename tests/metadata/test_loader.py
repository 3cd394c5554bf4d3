"""The way from committed batches to those who follow the metadata."""

import pytest

from cordwood.config.broker import BrokerConfig
from cordwood.config.layers import Layer
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import BROKER_DEFAULT, MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.node_config import NodeConfig
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.schema import MetadataRecord

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


def batch(offset: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(offset, offset + len(records), 1, 1_700_000_000_000, 0, records)


def setting(name: str, value: str, broker: str = "") -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_DEFAULT.type, resource_name=broker, name=name, value=value)


class Follower:
    def __init__(self) -> None:
        self.seen: list[tuple[list[str], int]] = []

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.seen.append((sorted(image.config(BROKER_DEFAULT)), image.covers.offset))


def test_each_committed_batch_is_published_with_the_image_after_it() -> None:
    loader, follower = Loader(), Follower()
    loader.committed([batch(0, setting("a", "1"))])
    loader.subscribe(follower)
    loader.committed([batch(1, setting("b", "1")), batch(2, setting("c", "1"))])
    assert follower.seen == [(["a", "b"], 2), (["a", "b", "c"], 3)]


class Failing:
    """Fails at its first change."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def apply(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        self.seen.append(image.covers.offset)
        if len(self.seen) == 1:
            raise KeyError("a bug")


def test_a_publisher_that_fails_keeps_metadata_neither_from_the_others_nor_from_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loader, failing, follower = Loader(), Failing(), Follower()
    loader.subscribe(failing)
    loader.subscribe(follower)
    loader.committed([batch(0, setting("a", "1")), batch(1, setting("b", "1"))])
    assert follower.seen == [(["a"], 1), (["a", "b"], 2)]
    assert failing.seen == [1, 2]
    assert loader.publishing_errors == 1
    (record,) = caplog.records
    assert "up to offset 0 failed in Failing" in record.getMessage()
    assert record.exc_info is not None


def test_a_committed_batch_that_cannot_be_loaded_is_invalid_metadata() -> None:
    unhashable = setting(["a"], "1")  # type: ignore[arg-type]
    with pytest.raises(InvalidMetadata, match="the batch at offset 0 cannot be loaded"):
        Loader().committed([batch(0, unhashable)])


def test_a_transaction_is_published_when_it_has_ended() -> None:
    loader, follower = Loader(), Follower()
    loader.subscribe(follower)
    loader.committed([batch(0, BeginTransactionRecord(), setting("a", "1"))])
    assert follower.seen == []
    loader.committed([batch(2, setting("b", "1"), EndTransactionRecord())])
    assert follower.seen == [(["a", "b"], 4)]


def test_a_loader_at_the_same_image_reuses_anothers_result() -> None:
    ahead, behind, elsewhere = Loader(), Loader(), Loader()
    behind.image = ahead.image
    change = batch(0, setting("a", "1"))
    delta = ahead.load(change)
    assert behind.load(change) is delta
    assert behind.image is ahead.image
    assert elsewhere.load(change) is not delta
    assert elsewhere.image.same_state(ahead.image)


def test_no_part_of_a_transaction_is_taken_over() -> None:
    ahead, behind = Loader(), Loader()
    behind.image = ahead.image
    for change in (batch(0, BeginTransactionRecord(), setting("a", "1")), batch(2, EndTransactionRecord())):
        ahead.load(change)
        behind.load(change)
        assert (behind.in_transaction, behind.image.covers) == (ahead.in_transaction, ahead.image.covers)
    assert behind.image.config(BROKER_DEFAULT) == {"a": "1"}


def test_a_nodes_configuration_follows_dynamic_settings() -> None:
    loader = Loader()
    node_config = NodeConfig(BrokerConfig.from_layers(Layer("test", SETTINGS)), loader.image)
    loader.subscribe(node_config)
    heard: list[int] = []

    def listen(config: BrokerConfig) -> None:
        heard.append(config.integer("log.cleaner.threads"))

    node_config.subscribe(listen)
    loader.committed([batch(0, setting("log.cleaner.threads", "2"))])
    loader.committed([batch(1, setting("log.cleaner.threads", "7", broker="2"))])
    loader.committed([batch(2, setting("log.cleaner.threads", "3", broker="1"))])
    node_config.unsubscribe(listen)
    loader.committed([batch(3, setting("log.cleaner.threads", "4", broker="1"))])
    assert heard == [1, 2, 3]
    assert node_config.current.integer("log.cleaner.threads") == 4
