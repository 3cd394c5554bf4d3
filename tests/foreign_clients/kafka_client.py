"""The interface of all Kafka clients in these tests, and its values.

Each real client has an implementation beside this: `librdkafka_client`, `kafka_python_client`, `aiokafka_client`,
`kcat_client`, and `cordwood_client`, our own. A client takes part as a real program would use it: no request is made by
hand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Protocol, Self, TypeVar

# As in ListOffsets.
LATEST = -1
EARLIEST = -2

PATIENCE_S = 30.0
# The offset of a partition at a time.
MAX_FETCH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Tls:
    ca_file: str
    certificate_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    bootstrap: str
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    # None: the time at which it is sent.
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record that was read."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
    # 0: CreateTime, 1: LogAppendTime; None if the client does not report it.
    timestamp_type: int | None


@dataclass(frozen=True, slots=True)
class Sending:
    """Producer parameters. Without client limits, which would hide the broker's."""

    compression: str = "none"
    acks: int = -1
    idempotent: bool = False
    linger_ms: int = 20
    batch_bytes: int = 1 << 20
    max_request_bytes: int = 64 << 20


DEFAULT_SENDING = Sending()


@dataclass(frozen=True, slots=True)
class ConfigValue:
    value: str | None
    # DescribeConfigs: 1 topic, 2 broker, 3 default broker, 4 static, 5 default.
    source: int


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource with a configuration."""

    kind: str  # "topic" or "broker"
    name: str


@dataclass(frozen=True, slots=True)
class ConfigChange:
    operation: str  # "set", "delete", "append" or "subtract"
    key: str
    value: str | None = None


class Refused(Exception):
    """The broker answered with this error code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code} {message}")
        self.code = code


class Reader(Protocol):
    """Reads one partition that it was assigned; no group."""

    def poll(self, wait_s: float) -> list[Stored]: ...

    def close(self) -> None: ...


class Client(Protocol):
    """One program's view of a cluster."""

    name: str

    def __init__(self, address: Address) -> None: ...

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        """Sends them all, and returns the offsets that were acknowledged if the client reports them (kcat does not)."""
        ...

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> Reader: ...

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """The first offset at or after the time; None if there is none."""
        ...

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """Log start and high watermark."""
        ...

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition → leader."""
        ...

    def close(self) -> None: ...


class Admin(Client, Protocol):
    """A client that can also administer."""

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...

    def add_partitions(self, name: str, total: int) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topic_names(self) -> set[str]: ...

    def configs(self, resource: Resource) -> dict[str, ConfigValue]: ...

    def replace_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        """AlterConfigs: what is not named goes back to its default."""
        ...

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        """The new log start; -1 stands for the high watermark."""
        ...


class IncrementalAdmin(Admin, Protocol):
    """An administrator that knows IncrementalAlterConfigs (aiokafka does not)."""

    def change_configs(self, resource: Resource, changes: Sequence[ConfigChange]) -> None: ...


@dataclass(slots=True)
class Reading:
    """A reader with what it has read so far, as a context manager."""

    reader: Reader
    records: list[Stored] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()

    def take(self, count: int, within_s: float = PATIENCE_S) -> list[Stored]:
        """The next `count` records."""
        deadline = monotonic() + within_s
        while len(self.records) < count:
            if monotonic() > deadline:
                raise AssertionError(f"{len(self.records)} of {count} records came within {within_s:g} s")
            self.records += self.reader.poll(0.5)
        taken, self.records = self.records[:count], self.records[count:]
        return taken


def read(
    client: Client,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    start: int = 0,
    isolation: str = "read_uncommitted",
    within_s: float = PATIENCE_S,
) -> list[Stored]:
    with Reading(client.reader(topic, partition=partition, start=start, isolation=isolation)) as reading:
        return reading.take(count, within_s)


def read_all(client: Client, topic: str, *, partition: int = 0) -> list[Stored]:
    """From the log start to the high watermark; compaction may have left gaps before the last record."""
    low, high = client.watermarks(topic, partition=partition)
    records: list[Stored] = []
    with Reading(client.reader(topic, partition=partition, start=low)) as reading:
        while low < high and (not records or records[-1].offset < high - 1):
            records += reading.take(1)
    return records


def refusal_of(action: Callable[[], object]) -> int | None:
    """The error code with which the broker refuses; None if it does not."""
    try:
        action()
    except Refused as refused:
        return refused.code
    return None


T = TypeVar("T")


def eventually(answer: Callable[[], T], holds: Callable[[T], bool] = bool, within_s: float = PATIENCE_S) -> T:
    """Asks until the answer is as it should be: a change reaches brokers and clients some time after it was made."""
    deadline = monotonic() + within_s
    while True:
        try:
            last = answer()
        except Refused as refusal:
            if monotonic() > deadline:
                raise AssertionError(f"still refused after {within_s:g} s") from refusal
        else:
            if holds(last):
                return last
            if monotonic() > deadline:
                raise AssertionError(f"after {within_s:g} s still {last!r}")
        sleep(0.02)
