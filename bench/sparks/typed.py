"""Topics of Avro values, a flat record and a nested one, as Confluent's serializers write them."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from bench.sparks import topics
from cordwood.registry import RegistryClient, topic_subject
from cordwood.runtime.files.byte_files import BytesIO

_DISTINCT = 100_000
_FIRST_TIME = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_FLAT = {
    "type": "record",
    "name": "Click",
    "fields": [
        _field("id", "long"),
        _field("user", "string"),
        _field("url", "string"),
        _field("amount", "double"),
        _field("count", "int"),
        _field("is_new", "boolean"),
        _field("at", _TIME),
        _field("country", ["null", "string"]),
        _field("kind", {"type": "enum", "name": "Kind", "symbols": ["VIEW", "CART", "BUY"]}),
        _field("score", "float"),
    ],
}
_NESTED = {
    "type": "record",
    "name": "Order",
    "fields": [
        _field("id", "long"),
        _field("at", _TIME),
        _field(
            "customer",
            {
                "type": "record",
                "name": "Customer",
                "fields": [
                    _field("name", "string"),
                    _field("email", ["null", "string"]),
                    _field(
                        "address",
                        {
                            "type": "record",
                            "name": "Address",
                            "fields": [_field("street", "string"), _field("city", "string"), _field("zip", "int")],
                        },
                    ),
                ],
            },
        ),
        _field(
            "lines",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [_field("sku", "string"), _field("count", "int"), _field("price", "double")],
                },
            },
        ),
        _field("tags", {"type": "map", "values": "string"}),
    ],
}


class TypedTopic(NamedTuple):
    name: str
    schema: Any
    value: Callable[[int, random.Random], dict[str, Any]]


def _click(number: int, chosen: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "user": f"user-{chosen.randrange(10_000):05}",
        "url": f"/shop/category/{chosen.randrange(100)}/item/{chosen.randrange(100_000)}",
        "amount": chosen.random() * 100,
        "count": chosen.randrange(20),
        "is_new": number % 3 == 0,
        "at": _FIRST_TIME + datetime.timedelta(milliseconds=number),
        "country": None if number % 4 == 0 else chosen.choice(("AT", "BR", "CH", "DE")),
        "kind": chosen.choice(("VIEW", "CART", "BUY")),
        "score": chosen.random(),
    }


def _order(number: int, chosen: random.Random) -> dict[str, Any]:
    name = f"Customer {chosen.randrange(10_000)}"
    address = {"street": f"Street {chosen.randrange(1_000)}", "city": "Springfield", "zip": chosen.randrange(99_999)}
    return {
        "id": number,
        "at": _FIRST_TIME + datetime.timedelta(milliseconds=number),
        "customer": {"name": name, "email": f"{number}@example.com" if number % 2 else None, "address": address},
        "lines": [
            {"sku": f"sku-{chosen.randrange(100_000):06}", "count": chosen.randrange(9), "price": chosen.random() * 50}
            for _ in range(1 + number % 5)
        ],
        "tags": {"channel": chosen.choice(("web", "app")), "campaign": f"c{chosen.randrange(50)}"},
    }


FLAT = TypedTopic("avro-flat", _FLAT, _click)
NESTED = TypedTopic("avro-nested", _NESTED, _order)


def fill(bootstrap: str, registry: str, topic: TypedTopic, rows: int, batch_bytes: int) -> None:
    id_ = RegistryClient(registry).register(topic_subject(topic.name), json.dumps(topic.schema)).id
    prefix = b"\0" + id_.to_bytes(4, "big")
    schema = fastavro.parse_schema(topic.schema)
    chosen = random.Random(1)
    encoded = []
    for number in range(_DISTINCT):
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, topic.value(number, chosen))
        encoded.append(prefix + out.getvalue())
    values = pa.array(encoded, pa.binary())
    topics.fill(bootstrap, topic.name, rows, batch_bytes, lambda ids: values.take(pc.subtract(ids, _whole(ids))))


def _whole(ids: pa.Array) -> pa.Array:
    return pc.multiply(pc.divide(ids, _DISTINCT), _DISTINCT)
