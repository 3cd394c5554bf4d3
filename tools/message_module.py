"""The source of one module of wire/messages/, for generate_messages.py."""

from __future__ import annotations

import json
import keyword
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LINE_LENGTH: int = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]

# A client reads the answer to ApiVersions before it knows what the broker speaks (KIP-511); no schema says so.
FIXED_HEADER_VERSIONS = {"ApiVersionsResponse": 0}

# Schema type: the declaring word, the Python type, the word's own default.
WORDS: dict[str, tuple[str, str, Any]] = {
    "bool": ("boolean", "bool", False),
    "int8": ("int8", "int", 0),
    "int16": ("int16", "int", 0),
    "int32": ("int32", "int", 0),
    "int64": ("int64", "int", 0),
    "uint16": ("uint16", "int", 0),
    "uint32": ("uint32", "int", 0),
    "float64": ("float64", "float", 0.0),
    "uuid": ("uuid", "Uuid", None),
    "string": ("string", "str", ""),
    "bytes": ("bytes_", "bytes", None),
    "records": ("records", "Records", None),
}
# Where a word or type is imported from, when not from schema.py.
PRIMITIVES = {"Uuid"}
TAKEN = {"Struct", "Message", "Request", "Response", "Records", "Uuid", "MetadataRecord"}
BASES = {
    "response": "Response",
    "header": "Message",
    "data": "Message",
    "metadata": "MetadataRecord",
    "coordinator-key": "CoordinatorKey",
    "coordinator-value": "CoordinatorValue",
}

Facts = dict[str, Any]


class Module:
    """The source of one module: its messages and the structs inside them."""

    def __init__(self, title: str, messages: list[Facts], origin: str) -> None:
        self.title = title
        self.messages = messages
        self.origin = origin
        self.imports: set[str] = set()
        counts = Counter(name for message in messages for name in set(struct_names(message)))
        self.shared_names = {name for name, count in counts.items() if count > 1} | TAKEN
        self.shared_names |= {message["name"] for message in messages}

    def text(self) -> str:
        classes = [text for message in self.messages for text in self.message_classes(message)]
        head = f'"""{self.title}\n\n{self.origin}\n"""\n\nfrom __future__ import annotations\n\n'
        return head + self.import_lines() + "\n\n\n" + "\n\n\n".join(classes) + "\n"

    def message_classes(self, message: Facts) -> list[str]:
        structs = self.structs(message)
        classes = [
            self.class_text(f"class {self.struct_name(message, name)}({self.use('Struct')}):", fields, message)
            for name, fields in structs.items()
        ]
        head = call(f"class {message['name']}", self.message_options(message), "", ":")
        return [*classes, self.class_text(head, message["fields"], message)]

    def structs(self, message: Facts) -> dict[str, list[Facts]]:
        """Every struct of a message, each before those that use it."""
        common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
        found: dict[str, list[Facts]] = {}

        def visit(fields: list[Facts]) -> None:
            for field in fields:
                name = element_of(field["type"])
                if is_struct(name) and name not in found:
                    inner = field.get("fields") or common[name]
                    visit(inner)
                    found[name] = inner

        visit(message["fields"])
        return found

    def struct_name(self, message: Facts, name: str) -> str:
        """A name that both messages of a module have gets theirs as a prefix: RequestTopicData, ResponseTopicData."""
        if name not in self.shared_names:
            return name
        suffix = re.search(r"[A-Z][a-z]+$", message["name"])
        assert suffix is not None
        return f"{suffix.group()}{name}"

    def message_options(self, message: Facts) -> list[str]:
        options = []
        kind = message["type"]
        if kind == "request":
            options.append(f"{self.use('Request')}[{message['name'].removesuffix('Request')}Response]")
        else:
            options.append(self.use(BASES[kind]))
        if kind in ("request", "response", "metadata"):
            options.append(f"api_key={message['apiKey']}")
        if kind.startswith("coordinator-"):
            options.append(f"record_type={message['apiKey']}")
        options.append(f'versions="{message["validVersions"]}"')
        options.append(f'flexible="{message["flexibleVersions"]}"')
        if kind == "request":
            comma = "," if len(message["listeners"]) == 1 else ""
            names = ", ".join(f'"{listener}"' for listener in message["listeners"])
            options.append(f"listeners=({names}{comma})")
        if message.get("latestVersionUnstable"):
            options.append("latest_version_unstable=True")
        if message["name"] in FIXED_HEADER_VERSIONS:
            options.append(f"header_version={FIXED_HEADER_VERSIONS[message['name']]}")
        return options

    def class_text(self, head: str, fields: list[Facts], message: Facts) -> str:
        if not fields:
            return f'{head}\n    """No fields."""'
        lines = [head]
        declared: set[str] = set()
        for field in fields:
            lines.append(self.field_text(field, message, declared))
            declared.add(attribute(field["name"]))
        return "\n".join(lines)

    def field_text(self, field: Facts, message: Facts, declared: set[str]) -> str:
        element = element_of(field["type"])
        nullable = field.get("nullableVersions", "none")
        if is_struct(element):
            inner_word = inner_type = self.struct_name(message, element)
            own_default: Any = None
        else:
            inner_word, inner_type, own_default = WORDS[element]
            if inner_type in PRIMITIVES or inner_type == "Records":
                self.use(inner_type)
            inner_word = self.word(inner_word, declared)
        if field["type"].startswith("[]"):
            word, python_type, own_default = self.word("array", declared), f"list[{inner_type}]", None
            arguments = [inner_word]
        elif is_struct(element):
            word, python_type = self.word("struct", declared), inner_type
            arguments = [inner_word]
        else:
            word, python_type, arguments = inner_word, inner_type, []
        if nullable != "none":
            python_type += " | None"
        arguments += self.field_options(field, nullable, own_default)
        return call(f"    {attribute(field['name'])}: {python_type} = {word}", arguments, "    ", "")

    def field_options(self, field: Facts, nullable: str, own_default: Any) -> list[str]:
        versions = field.get("versions", field.get("taggedVersions"))
        options = [f'"{versions}"']
        if nullable != "none":
            options.append(f'nullable="{nullable}"')
        if field.get("default") is not None:
            default = parse_default(field, nullable)
            if default != own_default or default is None:
                options.append(f"default={json.dumps(default) if isinstance(default, str) else repr(default)}")
        if "tag" in field:
            options.append(f"tag={field['tag']}")
            if field["taggedVersions"] != versions:
                options.append(f'tagged="{field["taggedVersions"]}"')
        if field.get("ignorable"):
            options.append("ignorable=True")
        if "flexibleVersions" in field:
            options.append(f'flexible="{field["flexibleVersions"]}"')
        return options

    def word(self, word: str, declared: set[str]) -> str:
        """A field of the same name hides a word from the fields below it."""
        if word in declared:
            self.imports.add("schema")
            return f"schema.{word}"
        return self.use(word)

    def use(self, name: str) -> str:
        self.imports.add(name)
        return name

    def import_lines(self) -> str:
        lines = []
        if "schema" in self.imports:
            lines.append("from cordwood.wire import schema")
        if primitives := self.imports & PRIMITIVES:
            lines.append(import_line("cordwood.wire.primitives", primitives))
        lines.append(import_line("cordwood.wire.schema", self.imports - PRIMITIVES - {"schema"}))
        return "\n".join(lines)


def parse_default(field: Facts, nullable: str) -> Any:
    default = field["default"]
    if default == "null" and nullable != "none":
        return None
    kind = field["type"]
    if kind == "bool":
        return default in (True, "true")
    if kind == "string":
        return default
    if kind == "float64":
        return float(default)
    if kind.startswith(("int", "uint")):
        return default if isinstance(default, int) else int(default, 0)
    raise ValueError(f"field {field['name']} of type {kind} has a default that has no rule: {default!r}")


def struct_names(message: Facts) -> Iterable[str]:
    def visit(fields: list[Facts]) -> Iterable[str]:
        for field in fields:
            if is_struct(element_of(field["type"])):
                yield element_of(field["type"])
            yield from visit(field.get("fields", []))

    yield from visit(message["fields"])
    for struct in message.get("commonStructs", []):
        yield struct["name"]
        yield from visit(struct["fields"])


def element_of(kind: str) -> str:
    return kind.removeprefix("[]")


def is_struct(kind: str) -> bool:
    return kind not in WORDS


def attribute(name: str) -> str:
    """snake_case, one underscore for each capital, so that the schema's name can be had back from it."""
    name = snake(name)
    return f"{name}_" if keyword.iskeyword(name) else name


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


# ---- text


def call(head: str, arguments: list[str], indent: str, tail: str) -> str:
    """`head(arguments)tail`, broken as ruff breaks it."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= LINE_LENGTH:
        return line
    inner = f"{indent}    {', '.join(arguments)}"
    if len(inner) <= LINE_LENGTH:
        return f"{head}(\n{inner}\n{indent}){tail}"
    lines = [f"{indent}    {argument}," for argument in arguments]
    return "\n".join([f"{head}(", *lines, f"{indent}){tail}"])


def import_line(module: str, names: set[str]) -> str:
    # As isort orders them: classes first, and int8 before int16.
    ordered = sorted(names, key=lambda name: (not name[0].isupper(), re.sub(r"\d+", lambda d: d[0].zfill(4), name)))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {module} import (", *[f"    {name}," for name in ordered], ")"])
