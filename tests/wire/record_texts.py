"""Records as text, one by one and as plainly as it goes: what `RecordText` is compared with."""

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cordwood.wire.record import ConsumerRecord
from cordwood.wire.record_text import TextField


def text_of(layout: Sequence[bytes | TextField], null: bytes, record: ConsumerRecord) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else _field(piece, null, record) for piece in layout)


def json_of(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": None if record.timestamp == -1 else record.timestamp,
        **_member("key", record.key),
        **_member("value", record.value),
        "headers": [{"name": name, **_member("value", content)} for name, content in record.headers],
    }


def _field(field: TextField, null: bytes, record: ConsumerRecord) -> bytes:
    match field:
        case TextField.TOPIC:
            return record.topic.encode()
        case TextField.KEY:
            return null if record.key is None else bytes(record.key)
        case TextField.VALUE:
            return null if record.value is None else bytes(record.value)
        case TextField.KEY_SIZE:
            return b"%d" % (-1 if record.key is None else len(record.key))
        case TextField.VALUE_SIZE:
            return b"%d" % (-1 if record.value is None else len(record.value))
        case TextField.TIME:
            if record.timestamp == -1:
                return b"-"
            try:
                time = datetime.fromtimestamp(record.timestamp / 1000, UTC)
            except (OverflowError, ValueError, OSError):
                return b"%d" % record.timestamp
            return time.isoformat(timespec="milliseconds").encode()
        case TextField.HEADERS:
            pairs = ((name.encode(), null if content is None else content) for name, content in record.headers)
            return b",".join(name + b"=" + content for name, content in pairs)
        case TextField.PARTITION | TextField.OFFSET | TextField.TIMESTAMP:
            return b"%d" % getattr(record, field.name.lower())
    member = json_of(record)
    name = field.name.removeprefix("JSON_").lower()
    if field in (TextField.JSON_KEY, TextField.JSON_VALUE):
        part = {key: value for key, value in member.items() if key in (name, f"{name}Base64")}
        return json.dumps(part, ensure_ascii=False)[1:-1].encode()
    return json.dumps(member[name], ensure_ascii=False).encode()


def _member(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(content).decode()}
