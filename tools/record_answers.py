"""Asks Apache Kafka every question of `kafka_answers`, and keeps what it answers for the tests.

    python tools/record_answers.py [--into DIRECTORY] [--port PORT] START STOP [NAME ...]

START and STOP are commands. `START DIRECTORY PORT` starts a freshly formatted node 1, with brokers on 127.0.0.1:PORT
and controllers at PORT+100, and takes its further settings from the environment (EXTRA="key=value ..."); `STOP
DIRECTORY` ends it. NAMEs are conversations; default: all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from cordwood.runtime.sockets import SocketNetwork
from kafka_answers.conversation import BROKER, CONTROLLER, Conversation, Json, Surroundings, converse
from kafka_answers.questions import CONVERSATIONS

ANSWERS = Path(__file__).parent.parent / "tests" / "broker" / "kafka_answers"
HOST = "127.0.0.1"
# Kafka answers before its own broker has seen what was changed.
SETTLING_S = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask Apache Kafka, and keep its answers.")
    parser.add_argument("start")
    parser.add_argument("stop")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--into", type=Path, default=ANSWERS, metavar="DIRECTORY")
    parser.add_argument("--port", type=int, default=19092)
    told = parser.parse_args()
    told.into.mkdir(exist_ok=True)
    for name in told.names or CONVERSATIONS:
        with tempfile.TemporaryDirectory() as scratch:
            exchanges = _ask(CONVERSATIONS[name], told.start, told.stop, scratch, told.port)
        lines = ",\n".join(json.dumps(exchange, ensure_ascii=False) for exchange in exchanges)
        (told.into / f"{name}.json").write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {len(exchanges)} answers")


def _ask(conversation: Conversation, start: str, stop: str, scratch: str, port: int) -> list[Json]:
    log_dirs = [f"{scratch}/dir{index}" for index in range(conversation.log_dirs)]
    settings = {"log.dirs": ",".join(log_dirs), **conversation.settings}
    extra = " ".join(shlex.quote(f"{name}={value}") for name, value in settings.items())
    subprocess.run(
        [*shlex.split(start), scratch, str(port)],
        check=True,
        env={**os.environ, "EXTRA": extra},
        stdout=subprocess.DEVNULL,
    )
    try:
        surroundings = Surroundings(HOST, {BROKER: port, CONTROLLER: port + 100}, log_dirs)
        return asyncio.run(_converse(conversation, surroundings))
    finally:
        subprocess.run([*shlex.split(stop), scratch], check=True, stdout=subprocess.DEVNULL)


async def _converse(conversation: Conversation, surroundings: Surroundings) -> list[Json]:
    return await converse(conversation, SocketNetwork(), surroundings, lambda: asyncio.sleep(SETTLING_S))


if __name__ == "__main__":
    main()
