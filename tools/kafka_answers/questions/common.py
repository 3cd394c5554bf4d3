"""Common first and last steps of questions."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_answers.conversation import ALL, Json, Question

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
UNKNOWN_ID = "AAECAwQFRgeICQoLDA0ODw"


def create(name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Question:
    return create_topics([topic(name, partitions, configs=configs)])


def create_topics(topics: list[Json], *, versions: tuple[int, ...] = (), validate_only: bool = False) -> Question:
    request = {"topics": topics, "timeoutMs": 30000, "validateOnly": validate_only}
    return Question("CreateTopics", request, versions)


def topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    assignments: list[tuple[int, list[int]]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> Json:
    return {
        "name": name,
        "numPartitions": partitions,
        "replicationFactor": factor,
        "assignments": [{"partitionIndex": index, "brokerIds": brokers} for index, brokers in assignments or []],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }


def delete(*names: str) -> Question:
    return Question("DeleteTopics", {"topics": [{"name": name} for name in names], "timeoutMs": 30000})


def look_at(*names: str) -> Question:
    """Describes topics (all unless named), with their partitions."""
    return Question("DescribeTopicPartitions", {"topics": [{"name": name} for name in names]})


def describe_configs(
    *resources: tuple[int, str, list[str] | None],
    synonyms: bool = True,
    documentation: bool = False,
    all_versions: bool = False,
) -> Question:
    request: Json = {
        "resources": [
            {"resourceType": kind, "resourceName": name, "configurationKeys": keys} for kind, name, keys in resources
        ],
        "includeSynonyms": synonyms,
    }
    if documentation:
        request["includeDocumentation"] = True
    return Question("DescribeConfigs", request, ALL if all_versions else ())
