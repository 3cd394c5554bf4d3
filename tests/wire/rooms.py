"""The compiled room is tested twice: as it was built, and as the same source, interpreted."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from cordwood import wire
from cordwood.wire import records

MODULES = (
    "hashing",
    "batch_header",
    "record_stream",
    "records",
    "record_checks",
    "record_text",
    "columns",
    "column_input",
    "line_input",
    "batch_builder",
)

TESTED = (
    "hashing",
    "records",
    "record_checks",
    "record_text",
    "columns",
    "column_input",
    "line_input",
    "batch_builder",
)
"""In the order of the fields of `Room`; the others are tested through these."""


@dataclass(frozen=True)
class Room:
    """The modules of one of the two, typed loosely: mypy knows only one of them."""

    name: str
    hashing: Any
    records: Any
    record_checks: Any
    record_text: Any
    columns: Any
    column_input: Any
    line_input: Any
    batch_builder: Any

    def __repr__(self) -> str:
        return self.name


def built_room() -> Room:
    return Room("compiled", *(importlib.import_module(f"cordwood.wire.{module}") for module in TESTED))


def interpreted_room() -> Room:
    names = [f"cordwood.wire.{module}" for module in MODULES]
    for name in names:
        importlib.import_module(name)
    built = {name: sys.modules.pop(name) for name in names}
    try:
        interpreted = {module: _interpreted(f"cordwood.wire.{module}") for module in MODULES}
    finally:
        sys.modules.update(built)
    return Room("interpreted", *(interpreted[module] for module in TESTED))


def _interpreted(name: str) -> Any:
    path = Path(wire.__path__[0]) / f"{name.rpartition('.')[2]}.py"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


NOT_BUILT = pytest.mark.skipif(not records.COMPILED, reason="built without a C compiler: nothing is compiled here")

in_each_room = pytest.mark.parametrize(
    "room",
    [
        pytest.param(built_room(), id="compiled", marks=NOT_BUILT),
        pytest.param(interpreted_room(), id="interpreted"),
    ],
)
