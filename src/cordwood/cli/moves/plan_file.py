"""Reassignments in the JSON that kafka-reassign-partitions takes and prints."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cordwood.cli.connection.access import EXIT_BAD_INPUT, fail
from cordwood.cli.terminal.output import warn
from cordwood.client.cluster import TopicPartition

_ANY_DIRECTORY = "any"


def plan_json(targets: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(replicas),
                "log_dirs": [_ANY_DIRECTORY] * len(replicas),
            }
            for partition, replicas in sorted(targets.items())
        ],
    }


def write_plan(file: Path, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    try:
        file.write_text(json.dumps(plan_json(targets), indent=2) + "\n")
    except OSError as error:
        fail(f"{file}: {error.strerror}")


def read_plan(file: Path) -> dict[TopicPartition, Sequence[int]]:
    """Reads a plan; ends the command if the file is not a plan."""
    try:
        told = json.loads(file.read_text())
        partitions = told["partitions"]
        targets: dict[TopicPartition, Sequence[int]] = {
            TopicPartition(str(each["topic"]), int(each["partition"])): [int(broker) for broker in each["replicas"]]
            for each in partitions
        }
        directories = {name for each in partitions for name in each.get("log_dirs", ())}
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_BAD_INPUT)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        like = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
        fail(f"{file} is not JSON such as {like}: {error}", EXIT_BAD_INPUT)
    if directories - {_ANY_DIRECTORY}:
        warn(f"{file} names log directories, which are not used here: cordwood logdirs move chooses directories")
    return targets
