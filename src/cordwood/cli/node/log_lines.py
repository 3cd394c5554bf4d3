"""Formats a node's log lines: text for people, or a JSON object per line for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class TextLines(logging.Formatter):
    def __init__(self, node: str | None = None) -> None:
        prefix = "" if node is None else f"{node}: "
        super().__init__(f"%(asctime)s {prefix}%(levelname)s %(name)s: %(message)s")


class JsonLines(logging.Formatter):
    def __init__(self, node: str | None = None) -> None:
        super().__init__()
        self._node = {} if node is None else {"node": node}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            **self._node,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
