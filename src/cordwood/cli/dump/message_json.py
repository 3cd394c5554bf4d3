"""A message as JSON: names in camel case, uuids and bytes in base64, tagged fields only where they are set."""

from base64 import b64encode
from typing import Any

from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.primitives import uuid_text
from cordwood.wire.schema import Kind, Message


def message_json(message: Message, version: int) -> dict[str, Any]:
    return _struct(message_layout(type(message), version), message)


def _struct(layout: Layout, struct: Any) -> dict[str, Any]:
    fields = {_camel(field.name): _field(field, getattr(struct, field.name)) for field in layout.fields}
    for field in layout.tagged:
        value = getattr(struct, field.name)
        if value != field.field.new_default():
            fields[_camel(field.name)] = _field(field, value)
    return fields


def _field(field: WireField, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        return [_element(field.element, item) for item in value]
    return _element(field.element or field.field.kind, value)


def _element(element: Layout | Kind | None, value: Any) -> Any:
    if isinstance(element, Layout):
        return _struct(element, value)
    assert element is not None
    if element.name == "uuid":
        return uuid_text(value)
    if element.name in ("bytes", "records"):
        return b64encode(value).decode()
    return value


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
