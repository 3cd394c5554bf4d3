"""The places of a cluster's files below its folder. Every node looks here at its start, for a cluster in its way."""

from __future__ import annotations

from pathlib import Path

_SERVER_PROPERTIES = "server.properties"
_NODE = "node-"
_DATA = "data"


def properties_of(root: Path, node_id: int) -> Path:
    return root / f"{_NODE}{node_id}" / _SERVER_PROPERTIES


def data_of(root: Path, node_id: int) -> Path:
    return root / f"{_NODE}{node_id}" / _DATA


def found_properties(root: Path) -> list[Path]:
    """The nodes' files, in the order of their ids; none if there is no cluster."""
    return sorted(root.glob(f"{_NODE}*/{_SERVER_PROPERTIES}"), key=_node_id)


def _node_id(file: Path) -> int:
    number = file.parent.name.removeprefix(_NODE)
    return int(number) if number.isdigit() else 0
