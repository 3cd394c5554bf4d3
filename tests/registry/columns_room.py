"""The decoders of `registry/columns` twice: as they were built, and as the same source, interpreted."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import cordwood
from cordwood.registry.schemas.schema import Schema
from cordwood.wire import records
from tests.wire.rooms import MODULES as WIRE

# In an order in which each imports only those before it.
MODULES = (
    *(f"cordwood.wire.{module}" for module in (*WIRE, "arrow")),
    *(
        f"cordwood.registry.columns.{module}"
        for module in (
            *("cursor", "builders", "steps", "avro_steps", "protobuf_wire", "protobuf_steps", "json_steps"),
            *("arrays", "avro_types", "plans", "decoder"),
            *("avro_defaults", "avro_resolution", "avro_plan", "protobuf_types", "protobuf_plan"),
            *("json_types", "json_plan"),
        )
    ),
)


@dataclass(frozen=True)
class ColumnsRoom:
    """The modules of one of the two, typed loosely: mypy knows only one of them."""

    name: str
    modules: Mapping[str, Any]

    def __repr__(self) -> str:
        return self.name

    @property
    def decoder(self) -> Any:
        return self.modules["decoder"]

    def plan_for(self, reader: Schema, message: str | None = None) -> Any:
        match reader.type:
            case "AVRO":
                return self.modules["avro_plan"].AvroPlan(reader)
            case "PROTOBUF":
                return self.modules["protobuf_plan"].ProtobufPlan(reader, message)
        return self.modules["json_plan"].JsonPlan(reader)

    def decode(
        self,
        reader: Schema,
        values: Sequence[bytes | None],
        writers: dict[int, Schema] | None = None,
        message: str | None = None,
    ) -> tuple[list[Any], list[tuple[int, str]]]:
        """The rows, and what is bad. Without `writers` the schema 1 is the reader's."""
        known = {1: reader} if writers is None else writers

        def by_id(id_: int) -> Schema:
            if id_ not in known:
                raise self.decoder.UnknownSchema(f"schema {id_} is not known")
            return known[id_]

        made = self.decoder.ColumnDecoder(self.plan_for(reader, message), by_id, None)
        decoded = made.decode(pa.array(values, pa.binary()))
        decoded.values.validate(full=True)
        return decoded.values.to_pylist(), [tuple(each) for each in decoded.bad]


def _interpreted(name: str) -> Any:
    path = Path(cordwood.__path__[0]).joinpath(*name.split(".")[1:]).with_suffix(".py")
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _interpreted_room() -> ColumnsRoom:
    built = {name: importlib.import_module(name) for name in MODULES}
    try:
        for name in MODULES:
            del sys.modules[name]
        made = {name: _interpreted(name) for name in MODULES}
    finally:
        sys.modules.update(built)
    return ColumnsRoom("interpreted", _by_short_name(made))


def _by_short_name(modules: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name.rpartition(".")[2]: module for name, module in modules.items()}


COMPILED = ColumnsRoom("compiled", _by_short_name({name: importlib.import_module(name) for name in MODULES}))
INTERPRETED = _interpreted_room()

in_each_room = pytest.mark.parametrize(
    "room",
    [
        pytest.param(
            COMPILED,
            id="compiled",
            marks=pytest.mark.skipif(not records.COMPILED, reason="built without a C compiler: nothing is compiled"),
        ),
        pytest.param(INTERPRETED, id="interpreted"),
    ],
)


def framed(payload: bytes, id_: int = 1) -> bytes:
    return b"\0" + id_.to_bytes(4, "big", signed=True) + payload
