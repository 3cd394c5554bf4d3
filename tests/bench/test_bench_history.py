"""The benchmark history: figures are found in printed lines, recorded per run, and rendered as a page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from bench.history.figures import Figure, figures_in
from bench.history.runs import Run
from bench.history.trend import load, render


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("last batch                    12.3 µs", [Figure("last batch", 12.3, "µs")]),
        (
            "uvloop   reply        5 in flight   94,661 requests/s    9.30 µs of server CPU each",
            [
                Figure("uvloop reply 5 in flight … … of server CPU each [1]", 94_661.0, "requests/s"),
                Figure("uvloop reply 5 in flight … … of server CPU each [2]", 9.3, "µs"),
            ],
        ),
        ("Heartbeat: 210,000/s (≥ 20,000)", [Figure("Heartbeat", 210_000.0, "/s")]),
        (
            "compact, 20-byte keys, 100-byte values  512,000 records/s  (≥ 400,000)",
            [Figure("compact, 20-byte keys, 100-byte values", 512_000.0, "records/s")],
        ),
        (
            "append a 16 KiB batch                              12.93 µs     (≤ 25)",
            [Figure("append a 16 KiB batch", 12.93, "µs")],
        ),
        (
            "look-up, 10,000 to 1,000 segments                   1.40 times  (≤ 2)",
            [Figure("look-up, 10,000 to 1,000 segments", 1.4, "times")],
        ),
        (
            "memory of an idle node 45 MB at the median, 50 MB at most",
            [
                Figure("memory of an idle node … at the median, … at most [1]", 45.0, "MB"),
                Figure("memory of an idle node … at the median, … at most [2]", 50.0, "MB"),
            ],
        ),
        ("kcat is not installed: Cordwood alone", []),
    ],
)
def test_figures_are_numbers_with_units_named_by_their_line(line: str, expected: list[Figure]) -> None:
    assert list(figures_in([line])) == expected


def test_indented_figures_belong_to_the_title_above() -> None:
    assert list(figures_in(["produce", "  cordwood  398,000/s", "", "consume", "  cordwood  834,000/s"])) == [
        Figure("produce: cordwood", 398_000.0, "/s"),
        Figure("consume: cordwood", 834_000.0, "/s"),
    ]


def test_a_run_appends_its_figures_with_commit_and_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = tmp_path / "figures.jsonl"
    for cost in (12.0, 9.0):
        with Run("cordwood 1", "2 cores", history).recording("fetch"):
            print(f"last batch  {cost} µs")
    assert capsys.readouterr().out == "last batch  12.0 µs\nlast batch  9.0 µs\n"
    entries = load(history.read_text().splitlines())
    assert [(entry["benchmark"], entry["name"], entry["value"]) for entry in entries] == [
        ("fetch", "last batch", 12.0),
        ("fetch", "last batch", 9.0),
    ]
    assert set(entries[0]) == {"date", "commit", "software", "machine", "load", "benchmark", "name", "value", "unit"}
    assert "| last batch | µs | 2 | 12 | 9 | 9 | █▁ |" in render(entries)


def test_a_failed_benchmark_records_nothing(tmp_path: Path) -> None:
    history = tmp_path / "figures.jsonl"

    with suppress(ZeroDivisionError), Run("cordwood 1", "2 cores", history).recording("fetch"):
        print("last batch  12.0 µs")
        raise ZeroDivisionError
    assert not history.exists()


def test_the_best_rate_is_the_highest_and_the_best_cost_the_lowest() -> None:
    about = {"date": "d", "commit": "c", "software": "s", "machine": "m", "load": 0.1, "benchmark": "b"}
    page = render(
        {**about, "name": unit, "unit": unit, "value": value} for unit in ("/s", "ms") for value in (2.0, 3.0, 2.5)
    )
    assert "| /s | /s | 3 | 2 | 3 | 2.5 |" in page
    assert "| ms | ms | 3 | 2 | 2 | 2.5 |" in page
