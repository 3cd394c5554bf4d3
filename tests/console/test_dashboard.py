"""The Grafana dashboard in docs/ asks for nothing that a node does not export."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.measured_node import make_topic, measured_node

DOCS = Path(__file__).parent.parent.parent / "docs"
PATIENCE_S = 60.0
# Suffixes and labels added by Prometheus or histograms.
COMMON_LABELS = {"instance", "job", "le"}
SUFFIXES = {
    "counter": ("_total",),
    "summary": ("_sum", "_count"),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((DOCS / "grafana" / "cordwood.json").read_text())
    return loaded


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert found is not None
            yield f"max by ({found[2]}) ({found[1]})"


def metrics_in(query: str) -> set[str]:
    """Names that are not labels, functions or operators."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on)\s*\([^)]*\)", " ", query)
    return set(re.findall(r"\b[a-z_]\w*\b(?!\s*\()", bare))


def labels_in(query: str) -> set[str]:
    grouped = {label for found in re.findall(r"\bby \(([^)]*)\)", query) for label in found.split(", ")}
    return grouped | {label for found in re.findall(r"\{([^}]*)\}", query) for label in re.findall(r"(\w+)=", found)}


def test_every_metric_in_the_dashboard_is_exported_by_a_node(tmp_path: Path, dashboard: dict[str, Any]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), measured_node(tmp_path) as measured:
            await make_topic(measured, "orders")
            figures = await measured.scrape()
        exported = {name + suffix for name, family in figures.families.items() for suffix in SUFFIXES[family.type]}
        asked = {name for query in queries(dashboard) for name in metrics_in(query)}
        assert len(asked) > 20
        assert asked - exported == set()

    asyncio.run(main())


def test_every_label_in_the_dashboard_is_one_of_its_metrics(dashboard: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([\w, ]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    documented = {name: set(labels.replace(" ", "").split(",")) for name, labels in rows}
    for query in queries(dashboard):
        for metric in metrics_in(query):
            known = documented[re.sub(r"_(bucket|sum|count)$", "", metric)] | COMMON_LABELS
            assert labels_in(query) - known == set(), query


def test_panels_are_whole_and_side_by_side(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["targets"]
