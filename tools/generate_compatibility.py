"""Writes docs/compatibility.md: what of Kafka's protocol is served here, as the handlers themselves declare it.

python tools/generate_compatibility.py [--into FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cordwood.broker.handlers import HANDLERS as BROKER_HANDLERS
from cordwood.controller.handlers import HANDLERS as CONTROLLER_HANDLERS
from cordwood.metadata.features import BOOTSTRAP_LEVELS, SUPPORTED, TOLERATED
from cordwood.net.api import Handler
from cordwood.wire.messages import request_class
from cordwood.wire.messages.index import APIS

PAGE = Path(__file__).parent.parent / "docs" / "compatibility.md"

INTRODUCTION = """\
# Compatibility

What of Apache Kafka 4.3's protocol is served here. This page is made by `tools/generate_compatibility.py` from the
declarations of the handlers in `src/cordwood/broker/handlers/` and `src/cordwood/controller/handlers/`, which are also
what ApiVersions answers: what is not handled is not advertised. Behaviour and error codes are Kafka's: answers of Kafka
4.3.1 to the same requests are kept in `tests/broker/`, and a node has to give them too (`tools/record_answers.py` asks
Kafka again).

Produce is advertised from version 0 on, as Kafka does: some clients take a missing 0 for a broken broker. Versions 0
to 2 of it are refused."""

DIFFERENCES = """\
## Where it differs on purpose

- Why records were refused is said in words where Kafka has none.
- Produce: of two batches for one partition in a request Kafka drops the former without a word; here both are appended,
  in order, and answered. Null in place of records is INVALID_RECORD, where Kafka does not answer at all; so is an
  unknown codec, where Kafka has UNKNOWN_SERVER_ERROR.
- Produce, Fetch: where `flush.messages` asks for a flush, neither acknowledgements nor readers run ahead of it: the
  high watermark waits for stable storage. One flush serves all waiting requests.
- Fetch: aborted transactions are sorted by where they begin, not by where they end.
- DeleteRecords: the new start of a log is on stable storage before it is answered; a crash brings nothing back.
- `flush.ms` of a topic does what it says, whatever `log.flush.scheduler.interval.ms` is."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/compatibility.md from the handlers.")
    parser.add_argument("--into", type=Path, default=PAGE, metavar="FILE")
    parser.parse_args().into.write_text(page())


def page() -> str:
    tables = [*_apis("broker"), "", *_apis("controller"), "", *_features(), ""]
    return "\n".join([INTRODUCTION, "", DIFFERENCES, "", *tables])


def _apis(listener: str) -> list[str]:
    handlers: dict[str, tuple[Handler[Any], ...]] = {"broker": BROKER_HANDLERS, "controller": CONTROLLER_HANDLERS}
    served = {handler.api_key: handler.advertised for handler in handlers[listener] if listener in handler.listeners}
    requests = {key: request_class(key) for key in APIS}
    known = {key: request for key, request in requests.items() if listener in request.listeners}
    title = "What clients ask a broker" if listener == "broker" else "What a controller is asked"
    return [
        f"## {title}",
        f"{len(served)} of {len(known)} APIs.",
        "",
        "| key | API | here | Kafka 4.3 |",
        "|---:|---|---|---|",
        *(
            f"| {key} | {APIS[key]} | {served.get(key, 'not yet')} | {request.stable_versions} |"
            for key, request in sorted(known.items())
        ),
    ]


def _features() -> list[str]:
    return [
        "## Features",
        "Levels that this node supports, and that a new cluster begins with.",
        "",
        "| feature | supported | new cluster |",
        "|---|---|---:|",
        *(
            f"| `{name}` | {levels.low}-{levels.high} | {BOOTSTRAP_LEVELS.get(name, 'of the quorum')} |"
            for name, levels in sorted(SUPPORTED.items())
        ),
        "",
        f"{' and '.join(f'`{name}`' for name in TOLERATED)} are not served yet: they are not advertised and cannot be",
        "finalized. A cluster that has them finalized, as Kafka 4.3 formats it, works as well: the level stays in the",
        "metadata, clients of this node are not told of it, and `kafka-features downgrade` removes it. Metadata with a",
        "level that this release does not know is refused at the start, as Kafka refuses it.",
    ]


if __name__ == "__main__":
    main()
