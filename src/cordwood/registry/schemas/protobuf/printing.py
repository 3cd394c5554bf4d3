"""Elements as a .proto text, laid out as Confluent's registry prints it: sections in one order, no comments."""

from __future__ import annotations

from collections.abc import Iterable

from .elements import (
    MAX_ENUM_NUMBER,
    MAX_FIELD_NUMBER,
    Enum,
    Extend,
    Field,
    File,
    MapType,
    Message,
    Numbers,
    OneOf,
    Option,
    Service,
    Value,
    Word,
)

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}


def printed(file: File) -> str:
    head = []
    if file.edition is not None:
        head.append(f'edition = "{file.edition}";')
    elif file.syntax is not None:
        head.append(f'syntax = "{file.syntax}";')
    if file.package:
        head.append(f"package {file.package};")
    imports = [f'import "{name}";' for name in file.imports]
    imports += [f'import public "{name}";' for name in file.public_imports]
    types = _flat(*map(_message, file.messages), *map(_enum, file.enums))
    sections = [
        imports,
        _statements(file.options),
        types,
        _flat(*map(_extend, file.extends)),
        _flat(*map(_service, file.services)),
    ]
    lines = head
    for section in sections:
        if section:
            lines += ["", *section]
    return "".join(f"{line}\n" for line in lines)


def value_text(value: Value) -> str:
    """Prints in Protobuf's text format."""
    return "\n".join(_value(value))


def _message(message: Message) -> list[str]:
    groups = [each for each in message.fields if each.group is not None]
    sections = [
        [_reserved(each, MAX_FIELD_NUMBER) for each in message.reserved],
        _statements(message.options),
        _flat(*(_field(each) for each in message.fields if each.group is None)),
        _flat(*map(_oneof, message.oneofs)),
        _flat(*map(_field, groups)),
        _flat(
            *(
                _with_options(f"extensions {_ranges(each.ranges, MAX_FIELD_NUMBER)}", each.options)
                for each in message.extensions
            )
        ),
        _flat(*map(_extend, message.extends)),
        _flat(*map(_message, message.messages), *map(_enum, message.enums)),
    ]
    return _block(f"message {message.name}", sections)


def _block(head: str, sections: Iterable[list[str]]) -> list[str]:
    """Sections are separated by an empty line; the first one follows the head directly."""
    lines: list[str] = []
    for section in sections:
        if section:
            lines += ["", *_indented(section)] if lines else _indented(section)
    return [f"{head} {{", *lines, "}"] if lines else [f"{head} {{}}"]


def _field(field: Field) -> list[str]:
    label = f"{field.label} " if field.label else ""
    if field.group is not None:
        body = _message(field.group)
        body[0] = body[0].replace(f"message {field.group.name}", f"{label}group {field.group.name} = {field.number}", 1)
        return body
    type_ = f"map<{field.type.key}, {field.type.value}>" if isinstance(field.type, MapType) else field.type
    return _with_options(f"{label}{type_} {field.name} = {field.number}", field.options)


def _oneof(oneof: OneOf) -> list[str]:
    return _block(f"oneof {oneof.name}", [_statements(oneof.options), _flat(*map(_field, oneof.fields))])


def _extend(extend: Extend) -> list[str]:
    return _block(f"extend {extend.type}", [_flat(*map(_field, extend.fields))])


def _enum(enum: Enum) -> list[str]:
    values = [_with_options(f"{value.name} = {value.number}", value.options) for value in enum.values]
    reserved = [_reserved(each, MAX_ENUM_NUMBER) for each in enum.reserved]
    return _block(f"enum {enum.name}", [[*reserved, *_statements(enum.options), *_flat(*values)]])


def _service(service: Service) -> list[str]:
    rpcs: list[str] = []
    for rpc in service.rpcs:
        request = f"stream {rpc.request}" if rpc.is_request_stream else rpc.request
        response = f"stream {rpc.response}" if rpc.is_response_stream else rpc.response
        head = f"rpc {rpc.name} ({request}) returns ({response})"
        options = _indented(_statements(rpc.options))
        rpcs += [f"{head} {{", *options, "};"] if options else [f"{head};"]
    return _block(f"service {service.name}", [_statements(service.options), rpcs])


def _reserved(values: list[Numbers | str], most: int) -> str:
    shown = [f'"{each}"' if isinstance(each, str) else _range(each, most) for each in values]
    return f"reserved {', '.join(shown)};"


def _ranges(ranges: list[Numbers], most: int) -> str:
    return ", ".join(_range(each, most) for each in ranges)


def _range(numbers: Numbers, most: int) -> str:
    if numbers.first == numbers.last:
        return str(numbers.first)
    return f"{numbers.first} to {'max' if numbers.last >= most else numbers.last}"


# ---- options


def _statements(options: list[Option]) -> list[str]:
    return _flat(
        *(_ended(["option " + line if not at else line for at, line in enumerate(_option(each))]) for each in options)
    )


def _with_options(text: str, options: list[Option]) -> list[str]:
    if not options:
        return [f"{text};"]
    if len(options) == 1:
        lines = _option(options[0])
        return _ended(_around(f"{text} [", lines, "]"))
    inner = _listed([_option(each) for each in options])
    return [f"{text} [", *_indented(inner), "];"]


def _option(option: Option) -> list[str]:
    return _around(f"{option.name} = ", _value(option.value), "")


def _value(value: Value) -> list[str]:
    match value:
        case Word(text=text):
            return [text]
        case str():
            return [_quoted(value)]
        case dict():
            inner = _listed([_around(f"{name}: ", _value(each), "") for name, each in value.items()])
            return ["{", *_indented(inner), "}"]
        case list():
            if len(value) == 1:
                return _around("[", _value(value[0]), "]")
            return ["[", *_indented(_listed([_value(each) for each in value])), "]"]
    raise AssertionError(value)


def _listed(items: list[list[str]]) -> list[str]:
    return _flat(*(_around("", item, "," if at < len(items) - 1 else "") for at, item in enumerate(items)))


def _around(before: str, lines: list[str], after: str) -> list[str]:
    made = [before + lines[0], *lines[1:]]
    made[-1] += after
    return made


def _ended(lines: list[str]) -> list[str]:
    return _around("", lines, ";")


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _indented(lines: list[str]) -> list[str]:
    # Also empty lines, as Confluent's registry does.
    return [f"  {line}" for line in lines]


def _flat(*parts: list[str]) -> list[str]:
    return [line for part in parts for line in part]
