"""The words in which messages are declared.

A message is a class, a field is one line of it::

    class PartitionProduceData(Struct):
        index: int = int32("0+")
        records: Records | None = records("0+", nullable="0+")

Versions are written as Kafka's schemas do: "3+", "0-12", "7", "none". Instances are built by keyword, every field
has a default, and two are equal when all their fields are. A class costs next to nothing at import: its constructor
is written at the first call, its codecs at the first use (see codec.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, dataclass_transform

from cordwood.wire.primitives import ZERO_UUID

Records = bytes | bytearray | memoryview | Sized
"""The value of a `records` field: bytes, or anything with a length that the sender knows how to send."""

LATEST = 0x7FFF
FRESH: Any = object()
"""Default of lists and structs: a new instance each time."""


class Versions:
    """An inclusive range of versions; `none` is empty."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    @classmethod
    @cache
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), LATEST)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Versions) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        if self.high < self.low:
            return "none"
        if self.high == LATEST:
            return f"{self.low}+"
        return f"{self.low}-{self.high}" if self.low < self.high else str(self.low)


class Kind:
    """A field type. Calling it declares a field; its name alone is an array's element type."""

    __slots__ = ("default", "format", "name", "size")

    def __init__(self, name: str, default: Any, format: str = "", size: int = 0) -> None:
        self.name = name
        self.default = default
        self.format = format
        """struct's letter for a fixed-size type, else empty."""
        self.size = size

    def __call__(self, versions: str, **options: Any) -> Any:
        return Field(self, None, versions, **options)

    def __repr__(self) -> str:
        return self.name


class Field:
    """A field declaration. `layout.py` resolves it for a version."""

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(
        self,
        kind: Kind,
        element: Kind | StructType | None,
        versions: str,
        *,
        nullable: str = "none",
        default: Any = ...,
        tag: int | None = None,
        tagged: str | None = None,
        ignorable: bool = False,
        flexible: str | None = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.element = element
        self.versions = versions
        self.nullable = nullable
        self.default = kind.default if default is ... else default
        self.tag = tag
        self.tagged = versions if tag is not None and tagged is None else tagged or "none"
        self.ignorable = ignorable
        self.flexible = flexible

    def new_default(self) -> Any:
        if self.default is not FRESH:
            return self.default
        return self.element() if isinstance(self.element, StructType) and self.kind is _STRUCT else []

    def __repr__(self) -> str:
        inner = f"({self.element!r})" if self.element else ""
        return f"<{self.name}: {self.kind}{inner} {self.versions}>"


boolean = Kind("bool", False, "?", 1)
int8 = Kind("int8", 0, "b", 1)
int16 = Kind("int16", 0, "h", 2)
int32 = Kind("int32", 0, "i", 4)
int64 = Kind("int64", 0, "q", 8)
uint16 = Kind("uint16", 0, "H", 2)
uint32 = Kind("uint32", 0, "I", 4)
float64 = Kind("float64", 0.0, "d", 8)
uuid = Kind("uuid", ZERO_UUID, "16s", 16)
string = Kind("string", "")
bytes_ = Kind("bytes", b"")
records = Kind("records", b"")
_ARRAY = Kind("array", FRESH)
_STRUCT = Kind("struct", FRESH)


def array(element: Kind | StructType, versions: str, **options: Any) -> Any:
    return Field(_ARRAY, element, versions, **options)


def struct(element: StructType, versions: str, **options: Any) -> Any:
    return Field(_STRUCT, element, versions, **options)


class StructType(type):
    """Turns the declarations of a class into slots.

    Properties of the class (API key, versions) are attributes of the class, never of an instance: fields may have the
    same names (`listeners`, `version`).
    """

    _fields: tuple[Field, ...]
    _facts: dict[str, Any]
    _values: Callable[[Any], Any] | None
    # Generated by codec.py, by version.
    _decoders: dict[int, Any]
    _view_decoders: dict[int, Any]
    _encoders: dict[int, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any) -> StructType:
        fields = []
        for key, value in list(namespace.items()):
            if value.__class__ is Field:
                value.name = key
                fields.append(value)
                del namespace[key]
        namespace.setdefault("__slots__", tuple(field.name for field in fields))
        created = super().__new__(cls, name, bases, namespace)
        created._fields = tuple(fields)
        created._facts = facts
        created._values = None
        created._decoders = {}
        created._view_decoders = {}
        created._encoders = {}
        return created

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any) -> None:
        super().__init__(name, bases, namespace)

    @property
    def fields(cls) -> tuple[Field, ...]:
        return cls._fields


@dataclass_transform(kw_only_default=True)
class _Declared:
    """Tells type checkers that the classes below have a constructor with one keyword per field."""

    __slots__ = ()


class Struct(_Declared, metaclass=StructType):
    """A value with named fields; `unknown_tags` holds unknown tagged fields in tag order."""

    __slots__ = ("unknown_tags",)

    if TYPE_CHECKING:
        unknown_tags: tuple[tuple[int, bytes], ...] = ()

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]  # each class gets its own, once
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(_values(self) == _values(other))

    __hash__ = None  # type: ignore[assignment]  # values change, so they are no keys

    def __repr__(self) -> str:
        shown = [f"{field.name}={_shown(getattr(self, field.name))}" for field in type(self).fields]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class MessageType(StructType):
    """Metaclass of top-level structs, which have their own versions."""

    @property
    def versions(cls) -> Versions:
        return Versions.parse(cls._facts["versions"])

    @property
    def flexible_versions(cls) -> Versions:
        return Versions.parse(cls._facts["flexible"])


class Message(Struct, metaclass=MessageType, versions="none", flexible="none"):
    """A header, or data stored inside other data; the root of all messages."""


class ApiMessageType(MessageType):
    """A request or a response."""

    @property
    def api_key(cls) -> int:
        key: int = cls._facts["api_key"]
        return key


class RequestType(ApiMessageType):
    @property
    def latest_version_unstable(cls) -> bool:
        return bool(cls._facts.get("latest_version_unstable", False))

    @property
    def stable_versions(cls) -> Versions:
        """The versions that a broker offers unless unstable ones are enabled; the same for its response."""
        versions = cls.versions
        return Versions(versions.low, versions.high - 1) if cls.latest_version_unstable else versions

    @property
    def listeners(cls) -> tuple[str, ...]:
        """Listeners that serve it: "broker", "controller"."""
        listeners: tuple[str, ...] = cls._facts["listeners"]
        return listeners

    @property
    def response(cls) -> type[Response]:
        """The class of its response."""
        answer: type[Response] = cls.__orig_bases__[0].__args__[0]  # type: ignore[attr-defined]  # Generic's own
        return answer

    def header_version(cls, version: int) -> int:
        return 2 if version in cls.flexible_versions else 1


class ResponseType(ApiMessageType):
    def header_version(cls, version: int) -> int:
        """An ApiVersions response keeps header 0: a client reads it before it knows the broker's versions."""
        fixed: int | None = cls._facts.get("header_version")
        if fixed is not None:
            return fixed
        return 1 if version in cls.flexible_versions else 0


class Response(Message, metaclass=ResponseType, versions="none", flexible="none"):
    """A response to a request."""


ResponseT = TypeVar("ResponseT", bound=Response)


class Request(Message, Generic[ResponseT], metaclass=RequestType, versions="none", flexible="none"):
    """A request from a client or a peer; its type parameter is the response class."""


class MetadataRecordType(MessageType):
    @property
    def api_key(cls) -> int:
        key: int = cls._facts["api_key"]
        return key


class MetadataRecord(Message, metaclass=MetadataRecordType, versions="none", flexible="none"):
    """A record of a log in Kafka's metadata framing: frame version, API key, version, body."""


class CoordinatorRecordType(MessageType):
    @property
    def record_type(cls) -> int:
        kind: int = cls._facts["record_type"]
        return kind


class CoordinatorKey(Message, metaclass=CoordinatorRecordType, versions="none", flexible="none"):
    """The key of a coordinator's record; its prefix is the record type."""


class CoordinatorValue(Message, metaclass=CoordinatorRecordType, versions="none", flexible="none"):
    """The value of a coordinator's record; its prefix is its version."""


def _constructor(cls: StructType) -> Any:
    """Generates `__init__` with one keyword per field, once per class: 5 times faster than a loop over the fields."""
    parameters, body = [], []
    scope: dict[str, Any] = {"FRESH": FRESH}
    for index, field in enumerate(cls.fields):
        scope[f"default{index}"] = field.default
        parameters.append(f"{field.name}=default{index}")
        if field.default is FRESH:
            scope[f"new{index}"] = field.element if field.kind is _STRUCT else list
            body.append(f" self.{field.name} = new{index}() if {field.name} is FRESH else {field.name}")
        else:
            body.append(f" self.{field.name} = {field.name}")
    source = f"def __init__(self, *, {', '.join([*parameters, 'unknown_tags=()'])}):\n"
    exec(source + "\n".join([*body, " self.unknown_tags = unknown_tags"]), scope)
    return scope["__init__"]


def _values(value: Any) -> Any:
    cls = type(value)
    if cls._values is None:
        cls._values = attrgetter(*[field.name for field in cls.fields], "unknown_tags")
    return cls._values(value)


def _shown(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(bytes(value)) if isinstance(value, memoryview) else repr(value)
