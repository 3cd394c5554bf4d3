"""The cluster's metadata as its log has it: the last snapshot, and the records since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cordwood.cli.dump.describe import METADATA_TOPIC
from cordwood.cli.dump.segment import Selection, dump_segment
from cordwood.log.log import Log
from cordwood.runtime.files.read_only import ReadOnlyFile, list_directory

from .records import Described, described_records

TOPIC, BROKER, GROUP = 2, 4, 32
RESOURCE_TYPES = {"TOPIC": TOPIC, "BROKER": BROKER, "GROUP": GROUP, "BROKER_LOGGER": 8, "CLIENT_METRICS": 16}


class Metadata:
    """The state that the records add up to, as far as the description of a directory has it."""

    def __init__(self) -> None:
        # Topic id -> name, and partition -> its replicas.
        self.topics: dict[str, str] = {}
        self.partitions: dict[str, dict[int, list[int]]] = {}
        # (resource type, resource name) -> configuration.
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.supported_features: dict[str, list[int]] = {}

    def replay(self, records: Iterable[Described]) -> None:
        pending: list[Described] | None = None
        for record in records:
            kind = record.get("decoded", {}).get("type")
            if kind == "BeginTransactionRecord":
                pending = []
            elif kind in ("EndTransactionRecord", "AbortTransactionRecord"):
                for held in (pending or []) if kind == "EndTransactionRecord" else []:
                    self._apply(held)
                pending = None
            elif pending is not None and "decoded" in record:
                pending.append(record)
            else:
                self._apply(record)

    def is_replicated(self, topic: str, partition: int) -> bool:
        topic_id = next((topic_id for topic_id, name in self.topics.items() if name == topic), "")
        return len(self.partitions.get(topic_id, {}).get(partition, [])) > 1

    def topic_config(self, topic: str) -> dict[str, str]:
        return self.configs.get((TOPIC, topic), {})

    def _apply(self, record: Described) -> None:
        if "control" in record:
            if record["control"]["type"] == "KRAFT_VERSION":
                self._set_feature("kraft.version", record["control"]["data"]["kRaftVersion"])
            return
        if "decoded" not in record:
            return
        data = record["decoded"]["data"]
        match record["decoded"]["type"]:
            case "TopicRecord":
                self.topics[data["topicId"]] = data["name"]
                self.partitions[data["topicId"]] = {}
            case "RemoveTopicRecord":
                name = self.topics.pop(data["topicId"])
                del self.partitions[data["topicId"]]
                self.configs.pop((TOPIC, name), None)
            case "PartitionRecord":
                self.partitions[data["topicId"]][data["partitionId"]] = data["replicas"]
            case "PartitionChangeRecord" if data.get("replicas") is not None:
                self.partitions[data["topicId"]][data["partitionId"]] = data["replicas"]
            case "ConfigRecord":
                self._set_config(data)
            case "FeatureLevelRecord":
                self._set_feature(data["name"], data["featureLevel"])
            case "RegisterBrokerRecord":
                self.supported_features = {
                    feature["name"]: [feature["minSupportedVersion"], feature["maxSupportedVersion"]]
                    for feature in data["features"]
                }

    def _set_config(self, data: dict[str, Any]) -> None:
        config = self.configs.setdefault((data["resourceType"], data["resourceName"]), {})
        if data["value"] is None:
            config.pop(data["name"], None)
        else:
            config[data["name"]] = data["value"]

    def _set_feature(self, name: str, level: int) -> None:
        if level:
            self.features[name] = level
        else:
            self.features.pop(name, None)


def snapshot_records(path: str) -> list[Described]:
    """The records of a metadata snapshot, or of the bootstrap checkpoint, which has the same format."""
    with ReadOnlyFile(path) as file:
        described = list(dump_segment(file, METADATA_TOPIC, Selection()))
    problems = [line for line in described if line["type"] == "problem"]
    if problems:
        raise ValueError(f"{path}: {problems[0]['reason']}")
    return [
        {name: value for name, value in line.items() if name != "type"}
        for line in described
        if line["type"] == "record"
    ]


def snapshot_files(directory: str) -> list[str]:
    return [name for name, _ in list_directory(directory) if name.endswith(".checkpoint")]


def load_metadata(directory: str, log: Log) -> Metadata:
    metadata = Metadata()
    next_offset = 0
    snapshots = snapshot_files(directory)
    if snapshots:
        metadata.replay(snapshot_records(f"{directory}/{snapshots[-1]}"))
        # A snapshot is named after the offset that follows its last record.
        next_offset = int(snapshots[-1].partition("-")[0])
    metadata.replay(_from(next_offset, described_records(log, METADATA_TOPIC)))
    return metadata


def _from(offset: int, records: Iterable[Described]) -> Iterator[Described]:
    return (record for record in records if record["offset"] >= offset)
