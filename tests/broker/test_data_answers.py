"""Cordwood's answers to edge cases of the data APIs equal those of Apache Kafka 4.3.1.

Kafka's answers were kept by tools/record_data_answers.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data_answers.asking import Asking
from data_answers.scenarios import SCENARIOS
from tests.broker.in_process import node_at, run

ANSWERS = Path(__file__).parent / "kafka_data_answers"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_answers_as_kafka_does(scenario: str, tmp_path: Path) -> None:
    expected: list[dict[str, Any]] = json.loads((ANSWERS / f"{scenario}.json").read_text())
    assert _differences(expected, run(_answers(scenario, tmp_path))) == []


async def _answers(scenario: str, directory: Path) -> list[dict[str, Any]]:
    async with node_at(directory) as node:
        ask = Asking(node)
        try:
            await SCENARIOS[scenario](ask)
        finally:
            ask.close()
        answers: list[dict[str, Any]] = json.loads(json.dumps(ask.answers))
        return answers


def _differences(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{theirs['asked']} (version {theirs['version']}):\n  Kafka    {theirs['answer']}\n  Cordwood {ours['answer']}"
        for theirs, ours in zip(expected, found, strict=True)
        if theirs != ours
    ]
