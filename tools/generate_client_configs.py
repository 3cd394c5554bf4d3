"""Writes docs/client-configuration.md from the clients' settings: their fields, defaults and docstrings.

python tools/generate_client_configs.py [--docs FILE]
"""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.options.foreign import NO_EFFECT, REFUSED, SASL, Unused
from cordwood.client.options.security import Security
from cordwood.client.options.values import RANGES, WORDS
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings, Settings

DOCS = Path(__file__).parent.parent / "docs" / "client-configuration.md"

INTRODUCTION = """\
# Configuration of the clients

Names, values and defaults are Kafka's. This page is made by `tools/generate_client_configs.py` from the settings in
`src/cordwood/client`; edit those.

A setting is a keyword in Python's spelling, or stands in a mapping with Kafka's dotted name; one or the other for each:

```python
Producer(bootstrap_servers="localhost:9092", linger_ms=20)
Producer({"bootstrap.servers": "localhost:9092", "linger.ms": "20"}, acks="all")
```

Text is read as Kafka reads it. A name that nobody knows is an error that names the nearest one; so is a value that
cannot be, or settings that do not fit each other, which are checked as Kafka's clients check them. Where our default is
not Kafka's, the last column says so.
"""

PRODUCERS_OTHER_NAMES = """\
`compression_gzip_level`, `compression_lz4_level` and `compression_zstd_level` are taken, too: that of the codec in use
is the level. `interceptor.classes` is `interceptors`, `partitioner.class` is `partitioner`.
"""

# Why a default is not Kafka's.
DIFFERENCES = {
    "client_id": "Kafka's makes one up",
    "send_buffer_bytes": "Kafka's: 131072",
    "receive_buffer_bytes": "Kafka's: 65536 (producer: 32768)",
    "ssl_truststore_type": "Kafka's: JKS",
    "ssl_keystore_type": "Kafka's: JKS",
    "default_api_timeout_ms": "Kafka's producer has no such setting",
}
OTHER_WORDS = {
    "acks": "`0`, `1`, `all`",
    "compression_type": "`none`, `gzip`, `snappy`, `lz4`, `zstd`",
    "compression_level": "gzip -1 to 9, lz4 1 to 17, zstd -131072 to 22",
    "security_protocol": "`PLAINTEXT`, `SSL`",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/client-configuration.md.")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="FILE")
    parser.parse_args().docs.write_text(page(), encoding="utf-8")


def page() -> str:
    first = ["bootstrap_servers", "client_id"]
    shared = first + [name for name in field_names(Settings) if name not in (*first, "tls")]
    parts = [
        INTRODUCTION,
        section("All clients", Settings, shared),
        section("Secure connections", Security, field_names(Security)),
        section("Producer", ProducerSettings, own(ProducerSettings)),
        PRODUCERS_OTHER_NAMES,
        section("Consumer", ConsumerSettings, own(ConsumerSettings)),
        "## Admin\n`connections_max_idle_ms` is "
        f"{AdminSettings().connections_max_idle_ms} unless given. Nothing but the settings of all clients.\n",
        unused("Accepted with a warning, because they do nothing here", NO_EFFECT),
        unused("Refused, because to go on without them would not be what was meant", REFUSED | {"sasl_*": SASL}),
    ]
    return "\n".join(parts)


def own(kind: type[Settings]) -> list[str]:
    inherited = set(field_names(Settings))
    return [name for name in field_names(kind) if name not in inherited]


def field_names(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind)]


def section(title: str, kind: type[Any], names: list[str]) -> str:
    texts = docstrings(kind)
    defaults = {field.name: field.default for field in fields(kind)}
    rows = ["| setting | default | allowed | what it does |", "|---|---|---|---|"]
    for name in names:
        what = texts[name]
        if name in DIFFERENCES:
            what += f" ({DIFFERENCES[name]}.)"
        cells = (f"`{name}`", shown_default(name, defaults[name]), allowed(name, defaults[name]), what)
        rows.append("| " + " | ".join(cells) + " |")
    return f"## {title}\n\n" + "\n".join(rows) + "\n"


def docstrings(kind: type[Any]) -> dict[str, str]:
    """Of its fields: the text that follows each."""
    texts: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if hasattr(base, "__dataclass_fields__")]):
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                assert isinstance(following, ast.Expr), f"{statement.target.id} has no docstring"
                texts[statement.target.id] = " ".join(ast.literal_eval(following.value).split())
    return texts


def shown_default(name: str, default: object) -> str:
    if name == "bootstrap_servers":
        return "*required*"
    if name == "acks":
        return "`all`"
    if default is None:
        return "`None`"
    if isinstance(default, tuple):
        return ", ".join(f"`{part}`" for part in default) or "*none*"
    if isinstance(default, str):
        return f"`{default}`" if default else "*empty*"
    return f"`{default}`"


def allowed(name: str, default: object) -> str:
    if name in OTHER_WORDS:
        return OTHER_WORDS[name]
    if name in WORDS:
        return ", ".join(f"`{word}`" for word in WORDS[name])
    if isinstance(default, bool):
        return "`true`, `false`"
    if isinstance(default, int):
        return f"{RANGES.get(name, (0, 0))[0]} or more"
    return ""


def unused(title: str, table: Mapping[str, Unused]) -> str:
    by_reason: dict[str, list[str]] = {}
    for name, why in table.items():
        by_reason.setdefault(why.reason, []).append(name)
    lines = [
        textwrap.fill(
            f"- {', '.join(f'`{name}`' for name in names)}: {reason}.",
            120,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        for reason, names in by_reason.items()
    ]
    return f"## {title}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
