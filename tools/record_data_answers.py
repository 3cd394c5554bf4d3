"""Asks a fresh Apache Kafka everything in tools/data_answers, and keeps what it says.

    python tools/record_data_answers.py HOST:PORT [SCENARIO...] [--into DIRECTORY]

The broker must be new: topics are created under fixed names, and deleted at the end of each scenario.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from cordwood.runtime.sockets import SocketNetwork
from data_answers.asking import Asking
from data_answers.kafka import Kafka
from data_answers.scenarios import SCENARIOS

ANSWERS = Path(__file__).parent.parent / "tests" / "broker" / "kafka_data_answers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("scenario", nargs="*")
    parser.add_argument("--into", type=Path, default=ANSWERS)
    arguments = parser.parse_args()
    host, _, port = arguments.address.rpartition(":")
    asyncio.run(record(host, int(port), arguments.scenario or list(SCENARIOS), arguments.into))


async def record(host: str, port: int, names: list[str], into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name in names:
        kafka = Kafka(SocketNetwork(), host, port)
        ask = Asking(kafka)
        try:
            await SCENARIOS[name](ask)
        finally:
            ask.close()
            await kafka.clean_up()
        (into / f"{name}.json").write_text(answers_text(ask))
        print(f"{name}: {len(ask.answers)} answers")


def answers_text(ask: Asking) -> str:
    """One answer a line."""
    lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in ask.answers)
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    main()
