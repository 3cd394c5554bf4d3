"""Compares two Protobuf files, by the rules that Confluent documents: data written with the original file must be
readable with the update, without losses or misinterpretation.

Fields are compared by number, regardless of their oneof. A oneof may be dissolved, but fields that were independent may
not become members of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cordwood.registry.schemas.budget import Budget
from cordwood.registry.schemas.schema import Incompatibility

from .elements import Enum, Field, File, MapType, Message, OneOf
from .scope import Found, Scope


class Difference(NamedTuple):
    kind: str
    path: str


COMPATIBLE = frozenset(
    [
        *["MESSAGE_ADDED", "MESSAGE_MOVED", "ENUM_ADDED", "ENUM_REMOVED"],
        *["ENUM_CONST_ADDED", "ENUM_CONST_CHANGED", "ENUM_CONST_REMOVED"],
        *["FIELD_ADDED", "FIELD_REMOVED", "FIELD_NAME_CHANGED", "FIELD_STRING_OR_BYTES_LABEL_CHANGED"],
        *["ONEOF_ADDED", "ONEOF_REMOVED", "ONEOF_FIELD_ADDED", "ONEOF_FIELD_MOVED_TO_TOP_LEVEL"],
    ]
)

# Types within one group have the same encoding for values that fit both.
_SCALAR_KINDS = {
    "int32": "number",
    "int64": "number",
    "uint32": "number",
    "uint64": "number",
    "bool": "number",
    "sint32": "signed",
    "sint64": "signed",
    "string": "text",
    "bytes": "text",
    "fixed32": "fixed32",
    "sfixed32": "fixed32",
    "fixed64": "fixed64",
    "sfixed64": "fixed64",
    "float": "float",
    "double": "double",
}

_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package in the {reader} schema does not match the package in the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a message type at path '%s' in the {writer} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '%s' in the {reader} schema does not match the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a scalar field at path '%s' in the {reader} schema does not match its kind in the {writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a message field at path '%s' in the {reader} schema does not match its type in the {writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label of a numeric field at path '%s' in the {reader} schema does not match that in the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": "A required field at path '%s' in the {reader} schema is missing in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path '%s' in the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '%s' in the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Several fields of the oneof at path '%s' in the {reader} schema are independent in the {writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field of the oneof at path '%s' in the {reader} schema is outside of a oneof in the {writer} schema"
    ),
}


def explained(difference: Difference) -> Incompatibility:
    description = _DESCRIPTIONS[difference.kind].replace("%s", difference.path)
    return Incompatibility(difference.kind, difference.path, description)


def differences(original: tuple[File, Scope], update: tuple[File, Scope]) -> list[Difference]:
    """All of them, also those that are compatible."""
    comparison = _Comparison(original[1], update[1])
    return list(dict.fromkeys(comparison.files(original[0], update[0])))


class _Comparison:
    def __init__(self, original: Scope, update: Scope) -> None:
        self._original = original
        self._update = update
        self._budget = Budget()
        # Pairs of messages that have been or are being compared: messages may be recursive.
        self._seen: dict[tuple[int, int], bool] = {}

    def files(self, original: File, update: File) -> Iterator[Difference]:
        if original.package != update.package:
            yield Difference("PACKAGE_CHANGED", "#/")
        yield from self._types(original, update, "", original.package, update.package)

    def _types(
        self, original: File | Message, update: File | Message, path: str, within: str, update_within: str
    ) -> Iterator[Difference]:
        befores, afters = _by_name(original), _by_name(update)
        for name in dict.fromkeys((*befores, *afters)):
            here = _named(path, name)
            if name not in afters:
                yield Difference("MESSAGE_REMOVED", here)
            elif name not in befores:
                yield Difference("MESSAGE_ADDED", here)
            else:
                inner, update_inner = _joined(within, name), _joined(update_within, name)
                yield from self._messages(befores[name], afters[name], here, inner, update_inner)
                if list(befores).index(name) != list(afters).index(name):
                    yield Difference("MESSAGE_MOVED", here)
        before_enums = {enum.name: enum for enum in original.enums}
        after_enums = {enum.name: enum for enum in update.enums}
        for name in dict.fromkeys((*before_enums, *after_enums)):
            here = _named(path, name)
            if name not in after_enums:
                yield Difference("ENUM_REMOVED", here)
            elif name not in before_enums:
                yield Difference("ENUM_ADDED", here)
            else:
                yield from _enums(before_enums[name], after_enums[name], here)

    def _messages(
        self, original: Message, update: Message, path: str, within: str, update_within: str
    ) -> Iterator[Difference]:
        self._budget.spend()
        pair = (id(original), id(update))
        if pair in self._seen:
            return
        self._seen[pair] = True
        found: list[Difference] = []
        for difference in self._message(original, update, path, within, update_within):
            found.append(difference)
            yield difference
        self._seen[pair] = all(difference.kind in COMPATIBLE for difference in found)

    def _message(
        self, original: Message, update: Message, path: str, within: str, update_within: str
    ) -> Iterator[Difference]:
        befores, afters = _by_number(original), _by_number(update)
        yield from _oneofs(original, update, befores, afters, path)
        for number in sorted(befores.keys() | afters.keys()):
            before, before_oneof = befores.get(number, (None, None))
            after, after_oneof = afters.get(number, (None, None))
            if after is None:
                assert before is not None
                if before_oneof is None:
                    kind = "REQUIRED_FIELD_REMOVED" if before.label == "required" else "FIELD_REMOVED"
                    yield Difference(kind, f"{path}/{number}")
                elif not _is_deleted(before_oneof, update, afters):
                    yield Difference("ONEOF_FIELD_REMOVED", f"{path}/{before_oneof.name}/{number}")
            elif before is None:
                if after_oneof is not None:
                    yield Difference("ONEOF_FIELD_ADDED", f"{path}/{after_oneof.name}/{number}")
                else:
                    kind = "REQUIRED_FIELD_ADDED" if after.label == "required" else "FIELD_ADDED"
                    yield Difference(kind, f"{path}/{number}")
            else:
                here = f"{path}/{number}" if after_oneof is None else f"{path}/{after_oneof.name}/{number}"
                if before_oneof is not None and after_oneof is None:
                    yield Difference("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", here)
                yield from self._fields(before, after, here, within, update_within)
        yield from self._types(original, update, path, within, update_within)

    def _fields(self, before: Field, after: Field, path: str, within: str, update_within: str) -> Iterator[Difference]:
        if before.name != after.name:
            yield Difference("FIELD_NAME_CHANGED", path)
        if isinstance(before.type, MapType) and isinstance(after.type, MapType):
            for one, other in zip(before.type, after.type, strict=True):
                yield from self._field_types(one, other, "", "", path, within, update_within)
        elif isinstance(before.type, MapType) or isinstance(after.type, MapType):
            yield Difference("FIELD_KIND_CHANGED", path)
        else:
            yield from self._field_types(
                before.type, after.type, before.label, after.label, path, within, update_within
            )

    def _field_types(
        self, before: str, after: str, label: str, after_label: str, path: str, within: str, update_within: str
    ) -> Iterator[Difference]:
        old, new = self._original.find(before, within), self._update.find(after, update_within)
        kind = _scalar_kind(before, old)
        new_kind = _scalar_kind(after, new)
        if (kind is None) != (new_kind is None):
            yield Difference("FIELD_KIND_CHANGED", path)
        elif kind is not None:
            if kind != new_kind:
                yield Difference("FIELD_SCALAR_KIND_CHANGED", path)
            elif label and after_label and label != after_label:
                is_text = kind == "text"
                yield Difference(f"FIELD_{'STRING_OR_BYTES' if is_text else 'NUMERIC'}_LABEL_CHANGED", path)
        elif old is None or new is None:
            if before != after:
                yield Difference("FIELD_NAMED_TYPE_CHANGED", path)
        elif old.local_name != new.local_name:
            yield Difference("FIELD_NAMED_TYPE_CHANGED", path)
        else:
            yield from self._field_messages(old, new, path)

    def _field_messages(self, old: Found, new: Found, path: str) -> Iterator[Difference]:
        assert isinstance(old.type, Message)
        assert isinstance(new.type, Message)
        yield from self._messages(
            old.type, new.type, "#/" + old.local_name.replace(".", "/"), old.full_name, new.full_name
        )
        if not self._seen.get((id(old.type), id(new.type)), True):
            yield Difference("FIELD_NAMED_TYPE_CHANGED", path)


def _oneofs(
    original: Message, update: Message, befores: dict[int, _Placed], afters: dict[int, _Placed], path: str
) -> Iterator[Difference]:
    for oneof in update.oneofs:
        origins = set()
        moved_in = 0
        for field in oneof.fields:
            before = befores.get(field.number)
            if before is None:
                # New: old data never has it.
                continue
            origins.add(f"oneof {before[1].name}" if before[1] is not None else f"field {field.number}")
            moved_in += before[1] is None
        if len(origins) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved_in > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield Difference(kind, f"{path}/{oneof.name}")
    old_names, new_names = {each.name for each in original.oneofs}, {each.name for each in update.oneofs}
    for name in sorted(old_names ^ new_names):
        yield Difference("ONEOF_REMOVED" if name in old_names else "ONEOF_ADDED", f"{path}/{name}")


def _is_deleted(oneof: OneOf, update: Message, afters: dict[int, _Placed]) -> bool:
    """Returns whether the oneof was removed with all of its fields."""
    if any(each.name == oneof.name for each in update.oneofs):
        return False
    return all(field.number not in afters for field in oneof.fields)


def _enums(original: Enum, update: Enum, path: str) -> Iterator[Difference]:
    befores = {value.number: value.name for value in original.values}
    afters = {value.number: value.name for value in update.values}
    for number in sorted(befores.keys() | afters.keys()):
        if number not in afters:
            yield Difference("ENUM_CONST_REMOVED", f"{path}/{number}")
        elif number not in befores:
            yield Difference("ENUM_CONST_ADDED", f"{path}/{number}")
        elif befores[number] != afters[number]:
            yield Difference("ENUM_CONST_CHANGED", f"{path}/{number}")


_Placed = tuple[Field, OneOf | None]


def _by_number(message: Message) -> dict[int, _Placed]:
    return {field.number: (field, oneof) for field, oneof in message.all_fields()}


def _by_name(owner: File | Message) -> dict[str, Message]:
    messages = owner.messages if isinstance(owner, File) else owner.all_messages()
    return {message.name: message for message in messages}


def _scalar_kind(name: str, found: Found | None) -> str | None:
    """None for messages. Enums are numbers."""
    if found is not None:
        return "number" if isinstance(found.type, Enum) else None
    return _SCALAR_KINDS.get(name)


def _named(path: str, name: str) -> str:
    return f"{path or '#'}/{name}"


def _joined(within: str, name: str) -> str:
    return f"{within}.{name}" if within else name
