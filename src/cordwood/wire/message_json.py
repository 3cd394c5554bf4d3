"""Converts messages to JSON and back: names in camel case, uuids and bytes in base64, tagged fields only if set."""

from base64 import b64decode, b64encode
from typing import Any, TypeVar

from cordwood.wire.layout import Layout, WireField, message_layout
from cordwood.wire.primitives import uuid_from_text, uuid_text
from cordwood.wire.schema import Kind, Message

M = TypeVar("M", bound=Message)


def message_to_json(message: Message, version: int) -> dict[str, Any]:
    return _struct_to_json(message_layout(type(message), version), message)


def message_from_json(cls: type[M], version: int, json: dict[str, Any]) -> M:
    """Missing fields get their defaults; a name that the version does not have raises ValueError."""
    message: M = _struct_from_json(message_layout(cls, version), json)
    return message


def _struct_to_json(layout: Layout, struct: Any) -> dict[str, Any]:
    fields = {_camel(field.name): _field_to_json(field, getattr(struct, field.name)) for field in layout.fields}
    for field in layout.tagged:
        value = getattr(struct, field.name)
        if value != field.field.new_default():
            fields[_camel(field.name)] = _field_to_json(field, value)
    return fields


def _field_to_json(field: WireField, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        return [_element_to_json(field.element, item) for item in value]
    return _element_to_json(field.element or field.field.kind, value)


def _element_to_json(element: Layout | Kind | None, value: Any) -> Any:
    if isinstance(element, Layout):
        return _struct_to_json(element, value)
    assert element is not None
    if element.name == "uuid":
        return uuid_text(value)
    if element.name in ("bytes", "records"):
        return b64encode(value).decode()
    return value


def _struct_from_json(layout: Layout, json: dict[str, Any]) -> Any:
    fields = {_camel(field.name): field for field in (*layout.fields, *layout.tagged)}
    unknown = [name for name in json if name not in fields]
    if unknown:
        raise ValueError(f"{layout.name} has no field {unknown[0]} in version {layout.version}")
    return layout.struct(**{fields[name].name: _field_from_json(fields[name], value) for name, value in json.items()})


def _field_from_json(field: WireField, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        return [_element_from_json(field.element, item) for item in value]
    return _element_from_json(field.element or field.field.kind, value)


def _element_from_json(element: Layout | Kind | None, value: Any) -> Any:
    if isinstance(element, Layout):
        return _struct_from_json(element, value)
    assert element is not None
    if element.name == "uuid":
        return uuid_from_text(value)
    if element.name in ("bytes", "records"):
        return b64decode(value, validate=True)
    return float(value) if element.name == "float64" else value


def _camel(name: str) -> str:
    """The schema's name with its first letter lowered."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)
