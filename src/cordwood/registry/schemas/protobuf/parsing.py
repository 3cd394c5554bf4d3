"""Parses a .proto text to elements: proto2, proto3 and editions."""

from __future__ import annotations

import re

from cordwood.registry.schemas.schema import MAX_NESTING, InvalidSchema

from .elements import (
    MAX_ENUM_NUMBER,
    MAX_FIELD_NUMBER,
    Aggregate,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    File,
    MapType,
    Message,
    Numbers,
    OneOf,
    Option,
    Rpc,
    Service,
    Value,
    Word,
)
from .tokens import Kind, Token, tokens

_LABELS = ("optional", "required", "repeated")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def parse(text: str) -> File:
    """Raises `InvalidSchema`."""
    return _Parser(tokens(text)).file()


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0

    # ---- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._next
        return token.text == text and token.kind in (Kind.NAME, Kind.SYMBOL)

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(f"'{text}'")

    def _of_kind(self, kind: Kind) -> str:
        if self._next.kind is not kind:
            raise self._error(kind.value)
        return self._take().text

    def _error(self, expected: str) -> InvalidSchema:
        token = self._next
        shown = f"'{token.text[:50]}'" if token.kind is not Kind.END else "the end of the text"
        return InvalidSchema(f"Syntax error in line {token.line}: expected {expected}, but found {shown}")

    def _identifier(self) -> str:
        if self._next.kind is not Kind.NAME or not _IDENTIFIER.fullmatch(self._next.text):
            raise self._error("a name")
        return self._take().text

    def _string(self) -> str:
        parts = [self._of_kind(Kind.STRING)]
        while self._next.kind is Kind.STRING:
            parts.append(self._take().text)
        return "".join(parts)

    def _integer(self) -> int:
        sign = -1 if self._accept("-") else 1
        token = self._next
        text = self._of_kind(Kind.NUMBER)
        try:
            number = (
                int(text, 16) if text[:2] in ("0x", "0X") else int(text, 8 if text[0] == "0" and len(text) > 1 else 10)
            )
        except ValueError:
            raise InvalidSchema(f"Syntax error in line {token.line}: {text[:50]} is not a whole number") from None
        return sign * number

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise InvalidSchema(f"Types or options are nested more than {MAX_NESTING} levels deep")

    # ---- the file

    def file(self) -> File:
        file = File()
        while self._next.kind is not Kind.END:
            if self._accept(";"):
                continue
            match self._next.text if self._next.kind is Kind.NAME else "":
                case "syntax":
                    self._take()
                    self._expect("=")
                    file.syntax = self._string()
                    if file.syntax not in ("proto2", "proto3"):
                        raise InvalidSchema(f"Unexpected syntax {file.syntax!r}: proto2 and proto3 are known")
                    self._expect(";")
                case "edition":
                    self._take()
                    self._expect("=")
                    file.edition = self._string()
                    self._expect(";")
                case "package":
                    self._take()
                    file.package = self._of_kind(Kind.NAME)
                    self._expect(";")
                case "import":
                    self._import(file)
                case "option":
                    file.options.append(self._option_statement())
                case "message":
                    file.messages.append(self._message())
                case "enum":
                    file.enums.append(self._enum())
                case "extend":
                    file.extends.append(self._extend(file.messages))
                case "service":
                    file.services.append(self._service())
                case _:
                    raise self._error("message, enum, service, extend, import, package or option")
        return file

    def _import(self, file: File) -> None:
        self._take()
        into = file.imports
        if self._accept("public"):
            into = file.public_imports
        else:
            self._accept("weak")
        into.append(self._string())
        self._expect(";")

    # ---- messages

    def _message(self) -> Message:
        self._take()
        message = Message(self._identifier())
        self._message_body(message)
        return message

    def _message_body(self, message: Message) -> None:
        self._enter()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            self._message_part(message)
        self._depth -= 1

    def _message_part(self, message: Message) -> None:
        # A keyword may also be the name of a field's type.
        follows = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else self._next
        text = self._next.text if self._next.kind is Kind.NAME else ""
        is_block = follows.kind is Kind.NAME and self._tokens[min(self._at + 2, len(self._tokens) - 1)].text == "{"
        if text == "message" and is_block:
            message.messages.append(self._message())
        elif text == "enum" and is_block:
            message.enums.append(self._enum())
        elif text == "extend" and is_block:
            message.extends.append(self._extend(message.messages))
        elif text == "oneof" and is_block:
            message.oneofs.append(self._oneof(message))
        elif text == "option" and self._tokens[self._at + 1].text != "=":
            message.options.append(self._option_statement())
        elif text == "reserved":
            self._take()
            message.reserved.append(self._reserved(MAX_FIELD_NUMBER))
        elif text == "extensions":
            self._take()
            ranges = self._ranges(MAX_FIELD_NUMBER)
            message.extensions.append(Extensions(ranges, self._options()))
            self._expect(";")
        else:
            message.fields.append(self._field())

    def _field(self) -> Field:
        label = self._take().text if self._next.kind is Kind.NAME and self._next.text in _LABELS else ""
        type_: str | MapType
        if self._is("group"):
            return self._group(label)
        if self._is("map") and self._tokens[self._at + 1].text == "<":
            self._take()
            self._expect("<")
            key = self._of_kind(Kind.NAME)
            self._expect(",")
            type_ = MapType(key, self._of_kind(Kind.NAME))
            self._expect(">")
        else:
            type_ = self._of_kind(Kind.NAME)
        name = self._identifier()
        self._expect("=")
        number = self._field_number(name)
        options = self._options()
        self._expect(";")
        return Field(label, type_, name, number, options)

    def _group(self, label: str) -> Field:
        self._take()
        message = Message(self._identifier())
        self._expect("=")
        number = self._field_number(message.name)
        options = self._options()
        self._message_body(message)
        return Field(label, message.name, message.name.lower(), number, options, group=message)

    def _field_number(self, name: str) -> int:
        number = self._integer()
        if not 1 <= number <= MAX_FIELD_NUMBER:
            raise InvalidSchema(f"The number of field {name} is {number}: it must be from 1 to {MAX_FIELD_NUMBER}")
        return number

    def _oneof(self, message: Message) -> OneOf:
        self._take()
        oneof = OneOf(self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._is("option"):
                oneof.options.append(self._option_statement())
            else:
                oneof.fields.append(self._field())
        return oneof

    def _extend(self, messages: list[Message]) -> Extend:
        self._take()
        extend = Extend(self._of_kind(Kind.NAME))
        self._expect("{")
        while not self._accept("}"):
            if not self._accept(";"):
                extend.fields.append(self._field())
        return extend

    # ---- enums

    def _enum(self) -> Enum:
        self._take()
        enum = Enum(self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._is("option") and self._tokens[self._at + 1].text != "=":
                enum.options.append(self._option_statement())
            elif self._is("reserved") and self._tokens[self._at + 1].text != "=":
                self._take()
                enum.reserved.append(self._reserved(MAX_ENUM_NUMBER))
            else:
                name = self._identifier()
                self._expect("=")
                number = self._integer()
                if not -MAX_ENUM_NUMBER - 1 <= number <= MAX_ENUM_NUMBER:
                    raise InvalidSchema(
                        f"The number of {name} in enum {enum.name} is {number}: it must fit into 32 bits"
                    )
                options = self._options()
                self._expect(";")
                enum.values.append(EnumValue(name, number, options))
        return enum

    # ---- reserved, extensions

    def _reserved(self, most: int) -> list[Numbers | str]:
        found: list[Numbers | str] = []
        while True:
            if self._next.kind is Kind.STRING:
                found.append(self._string())
            elif self._next.kind is Kind.NAME:
                # As editions have it.
                found.append(self._identifier())
            else:
                found.append(self._range(most))
            if not self._accept(","):
                self._expect(";")
                return found

    def _ranges(self, most: int) -> list[Numbers]:
        found = [self._range(most)]
        while self._accept(","):
            found.append(self._range(most))
        return found

    def _range(self, most: int) -> Numbers:
        first = self._integer()
        if not self._accept("to"):
            return Numbers(first, first)
        last = most if self._accept("max") else self._integer()
        if last < first:
            raise self._error(f"a number from {first} at the end of the range")
        return Numbers(first, last)

    # ---- services

    def _service(self) -> Service:
        self._take()
        service = Service(self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._is("option"):
                service.options.append(self._option_statement())
            elif self._is("rpc"):
                service.rpcs.append(self._rpc())
            else:
                raise self._error("rpc or option")
        return service

    def _rpc(self) -> Rpc:
        self._take()
        rpc = Rpc(self._identifier(), "", "")
        rpc.request, rpc.is_request_stream = self._rpc_type()
        self._expect("returns")
        rpc.response, rpc.is_response_stream = self._rpc_type()
        if self._accept("{"):
            while not self._accept("}"):
                if not self._accept(";"):
                    rpc.options.append(self._option_statement())
        else:
            self._expect(";")
        return rpc

    def _rpc_type(self) -> tuple[str, bool]:
        self._expect("(")
        name, is_stream = self._of_kind(Kind.NAME), False
        if name == "stream" and self._next.kind is Kind.NAME:
            name, is_stream = self._take().text, True
        self._expect(")")
        return name, is_stream

    # ---- options

    def _option_statement(self) -> Option:
        if not self._accept("option"):
            raise self._error("option")
        option = self._option()
        self._expect(";")
        return option

    def _options(self) -> list[Option]:
        options: list[Option] = []
        if self._accept("["):
            while True:
                options.append(self._option())
                if not self._accept(","):
                    break
            self._expect("]")
        return options

    def _option(self) -> Option:
        name = self._option_name()
        self._expect("=")
        return Option(name, self._value())

    def _option_name(self) -> str:
        name = ""
        while True:
            if self._accept("("):
                name += f"({self._of_kind(Kind.NAME)})"
                self._expect(")")
            else:
                # After a closing parenthesis the tokens are `.a.b`.
                name += self._of_kind(Kind.NAME)
            if self._accept("."):
                name += "."
            elif not (self._next.kind is Kind.NAME and self._next.text.startswith(".")):
                return name

    def _value(self) -> Value:
        if self._next.kind is Kind.STRING:
            return self._string()
        if self._is("{") or self._is("<"):
            return self._aggregate()
        if self._accept("["):
            self._enter()
            values: list[Value] = []
            while not self._accept("]"):
                values.append(self._value())
                self._accept(",")
            self._depth -= 1
            return values
        sign = "-" if self._accept("-") else ""
        if not sign:
            self._accept("+")
        if self._next.kind not in (Kind.NAME, Kind.NUMBER):
            raise self._error("a value")
        return Word(sign + self._take().text)

    def _aggregate(self) -> Aggregate:
        """Parses Protobuf's text format."""
        self._enter()
        end = "}" if self._take().text == "{" else ">"
        found: Aggregate = {}
        while not self._accept(end):
            if self._accept("["):
                name = f"[{self._of_kind(Kind.NAME)}]"
                self._expect("]")
            else:
                name = self._of_kind(Kind.NAME)
            has_colon = self._accept(":")
            if not has_colon and not (self._is("{") or self._is("<")):
                raise self._error("':'")
            value = self._value()
            # A repeated field may be given several times.
            known = found.get(name)
            if known is None:
                found[name] = value
            else:
                found[name] = [*known, value] if isinstance(known, list) else [known, value]
            if not self._accept(","):
                self._accept(";")
        self._depth -= 1
        return found
