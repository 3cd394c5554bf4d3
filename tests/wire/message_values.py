"""Random messages, valid in a version, made from its layout; and every message there is."""

from __future__ import annotations

from random import Random
from typing import Any

from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.messages import index, message_class
from cordwood.wire.schema import Kind, Message

ALL_MESSAGES = sorted(index.MODULES)

TEXTS = ["", "a", "orders-0", "café-東京", '😀 x\t"q"\\', "x" * 126, "y" * 127, "z" * 300]
RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}


def random_message(name: str, version: int, random: Random) -> Message:
    message = random_struct(message_layout(message_class(name), version), random, 0)
    assert isinstance(message, Message)
    return message


def random_struct(layout: Layout, random: Random, depth: int) -> Any:
    values = {field.name: random_field(field, random, depth) for field in layout.fields}
    for field in layout.tagged:
        if random.random() < 0.5:
            values[field.name] = random_field(field, random, depth)
    if layout.flexible and random.random() < 0.2:
        tags = sorted(random.sample([40, 200, 70_000, 0x7FFF_FFFF], random.randrange(1, 4)))
        values["unknown_tags"] = tuple((tag, random.randbytes(random.choice([0, 3, 200]))) for tag in tags)
    return layout.struct(**values)


def random_field(field: WireField, random: Random, depth: int) -> Any:
    if field.nullable and random.random() < 0.3:
        return None
    if field.kind == "array":
        count = random.choice([0, 1, 1, 2, 130 if depth == 0 and isinstance(field.element, Kind) else 3])
        return [random_element(field.element, random, depth) for _ in range(count)]
    return random_element(field.element or field.field.kind, random, depth)


def random_element(element: Layout | Kind | None, random: Random, depth: int) -> Any:
    if isinstance(element, Layout):
        return random_struct(element, random, depth + 1)
    assert element is not None
    if element.name == "bool":
        return random.random() < 0.5
    if element.name == "string":
        return random.choice(TEXTS)
    if element.name in ("bytes", "records"):
        return random.randbytes(random.choice([0, 1, 126, 127, 128, 20_000]))
    if element.name == "uuid":
        return random.randbytes(16)
    if element.name == "float64":
        return random.choice([0.0, -1.5, random.random() * 1e300])
    low, high = RANGES[element.name]
    return random.choice([0, 1, low, high, random.randint(low, high)])
