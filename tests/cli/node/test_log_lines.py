"""A node's log output: lines for machines, and warnings about settings without effect."""

import json
import logging

import pytest

from cordwood.cli.node.foreground import _read_config
from cordwood.cli.node.log_lines import JsonLines


def test_a_json_log_line_has_time_level_logger_and_message() -> None:
    record = logging.LogRecord("cordwood.log", logging.WARNING, "", 0, "%d records", (3,), None)
    record.created = 1_700_000_000.25
    assert json.loads(JsonLines().format(record)) == {
        "time": "2023-11-14T22:13:20.250+00:00",
        "level": "WARNING",
        "logger": "cordwood.log",
        "message": "3 records",
    }


def test_an_exception_stays_within_its_line() -> None:
    try:
        raise ValueError("of two\nlines")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), (type(error), error, error.__traceback__))
    line = JsonLines().format(record)
    assert "\n" not in line
    assert "ValueError: of two" in json.loads(line)["exception"]


def test_settings_without_effect_are_reported_and_others_are_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CORDWOOD_TEST_KAFKA", raising=False)
    _read_config(None, ["num.io.threads=4", "num.partitions=2", "telemetry.max.bytes=7"], "127.0.0.1", 0, None)
    assert [record.getMessage().partition(" is set")[0] for record in caplog.records] == [
        "num.io.threads",
        "telemetry.max.bytes",
    ]
