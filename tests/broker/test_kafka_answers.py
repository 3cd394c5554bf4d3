"""The questions that Apache Kafka was asked are asked of a node; what it answers has to be what Kafka answered."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_answers.conversation import SAYS_NOTHING, Json, converse
from kafka_answers.questions import CONVERSATIONS
from tests.broker.admin_node import run, running

# The path of a value that differs.
_SHOWN = 300
ANSWERS = Path(__file__).parent / "kafka_answers"


@pytest.fixture(autouse=True)
def root_level() -> Iterator[None]:
    """Kafka's root logger is at INFO, and some questions change it."""
    before = logging.root.level
    logging.root.setLevel(logging.INFO)
    yield
    logging.root.setLevel(before)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_node_answers_as_kafka_does(name: str, tmp_path: Path) -> None:
    recorded = json.loads((ANSWERS / f"{name}.json").read_text())
    exchanges = run(_converse(name, tmp_path))
    assert [_question(exchange) for exchange in exchanges] == [_question(exchange) for exchange in recorded]
    told = [
        _difference(theirs, ours)
        for theirs, ours in zip(recorded, exchanges, strict=True)
        if _differences("", theirs["answer"], ours["answer"])
    ]
    assert not told, "\n".join([f"{len(told)} of {len(recorded)} answers differ:", *told])


async def _converse(name: str, directory: Path) -> list[Json]:
    conversation = CONVERSATIONS[name]
    async with running(directory, conversation) as (_, network, surroundings):
        return await converse(conversation, network, surroundings)


def _question(exchange: Json) -> Json:
    return {name: value for name, value in exchange.items() if name != "answer"}


def _difference(theirs: Json, ours: Json) -> str:
    lines = [f"{theirs['api']} {theirs['version']}: {_shortened(theirs['request'])}"]
    lines += _differences("", theirs["answer"], ours["answer"])
    return "\n".join(lines)


def _differences(path: str, theirs: Any, ours: Any) -> list[str]:
    if theirs == ours or (theirs == SAYS_NOTHING and isinstance(ours, str)):
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            line
            for name in {**theirs, **ours}
            for line in _differences(f"{path}.{name}", theirs.get(name), ours.get(name))
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            line
            for index, (one, other) in enumerate(zip(theirs, ours, strict=True))
            for line in _differences(f"{path}[{index}]", one, other)
        ]
    return [f"  {path}: Kafka {_shortened(theirs)}", f"  {path}: here  {_shortened(ours)}"]


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
