"""kcat: a process per call."""

import json
import shutil
import subprocess
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from tests.foreign_clients.kafka_client import (
    DEFAULT_SENDING,
    EARLIEST,
    LATEST,
    MAX_FETCH_BYTES,
    PATIENCE_S,
    Address,
    Record,
    Refused,
    Sending,
    Stored,
)

KCAT = shutil.which("kcat") or shutil.which("kafkacat")

# Offset, timestamp and sizes on a line, then key and value as they are.
_FORMAT = "%o %T %K %S %h\n%k%s"
_UNKNOWN_TOPIC_OR_PARTITION = 3


class KcatClient:
    """It cannot set timestamps, reports no offsets, and gives all records of a call the same headers."""

    name = "kcat"

    def __init__(self, address: Address) -> None:
        assert KCAT is not None
        self._command = [KCAT, "-b", address.bootstrap, "-X", "log_level=2", "-m", str(int(PATIENCE_S))]
        if address.tls is not None:
            self._command += ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={address.tls.ca_file}"]
            if address.tls.certificate_file is not None:
                self._command += ["-X", f"ssl.certificate.location={address.tls.certificate_file}"]
                self._command += ["-X", f"ssl.key.location={address.tls.key_file}"]

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        (headers,) = {record.headers for record in records}
        (keyed,) = {record.key is not None for record in records}
        nulls = {record.value is None for record in records}
        assert len(nulls) == 1 or b"" not in {record.value for record in records}, "-Z makes null of what is empty"
        command = ["-P", "-t", topic, "-p", str(partition), "-z", how.compression]
        command += ["-X", f"acks={how.acks}", "-X", f"enable.idempotence={str(how.idempotent).lower()}"]
        command += ["-X", f"linger.ms={how.linger_ms}", "-X", f"message.max.bytes={how.max_request_bytes}"]
        command += ["-X", f"batch.size={how.batch_bytes}"]
        command += ["-K", "\t"] if keyed else []
        command += ["-Z"] if True in nulls else []
        for name, value in headers:
            command += ["-H", name if value is None else f"{name}={value.decode()}"]
        lines = [
            (b"" if record.key is None else record.key + b"\t") + (record.value or b"") + b"\n" for record in records
        ]
        self._run(command, b"".join(lines))
        return []

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> "KcatReader":
        where = {LATEST: "end", EARLIEST: "beginning"}.get(start, str(start))
        command = ["-C", "-q", "-u", "-t", topic, "-p", str(partition), "-o", where, "-f", _FORMAT]
        return KcatReader(
            [
                *self._command,
                *command,
                "-X",
                f"isolation.level={isolation}",
                "-X",
                f"max.partition.fetch.bytes={max_bytes}",
            ]
        )

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        """`-1` and `-2` are the ends, as in ListOffsets."""
        answer = self._run(["-Q", "-t", f"{topic}:{partition}:{timestamp_ms}"])
        # "topic [0] offset 7"
        offset = int(answer.split()[-1])
        return offset if offset >= 0 else None

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        low = self.offset_for_time(topic, EARLIEST, partition=partition)
        high = self.offset_for_time(topic, LATEST, partition=partition)
        assert low is not None
        assert high is not None
        return low, high

    def leaders(self, topic: str) -> dict[int, int]:
        (description,) = json.loads(self._run(["-L", "-J", "-t", topic]))["topics"]
        if "error" in description:
            raise Refused(_UNKNOWN_TOPIC_OR_PARTITION, description["error"])
        return {partition["partition"]: partition["leader"] for partition in description["partitions"]}

    def close(self) -> None:
        """Nothing is left between calls."""

    def _run(self, command: Sequence[str], given: bytes = b"") -> bytes:
        done = subprocess.run([*self._command, *command], input=given, capture_output=True, timeout=2 * PATIENCE_S)
        if done.returncode != 0:
            raise AssertionError(f"kcat ended with {done.returncode}: {done.stderr.decode()}")
        return done.stdout


class KcatReader:
    """A kcat that continues reading; a thread takes what it prints apart."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._records: SimpleQueue[Stored] = SimpleQueue()
        self._thread = threading.Thread(target=self._parse, name="kcat reader", daemon=True)
        self._thread.start()

    def poll(self, wait_s: float) -> list[Stored]:
        records = []
        try:
            records.append(self._records.get(timeout=wait_s))
            while True:
                records.append(self._records.get_nowait())
        except Empty:
            if not records and self._process.poll() not in (None, 0):
                assert self._process.stderr is not None
                raise AssertionError(f"kcat ended: {self._process.stderr.read().decode()}") from None
            return records

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()

    def _parse(self) -> None:
        out = self._process.stdout
        assert out is not None
        while (line := out.readline()).endswith(b"\n"):
            offset, timestamp_ms, key_size, value_size, *headers = line.rstrip(b"\n").split(b" ", 4)
            key = out.read(int(key_size)) if int(key_size) >= 0 else None
            value = out.read(int(value_size)) if int(value_size) >= 0 else None
            if len(value or b"") < int(value_size):
                return  # it was killed while it wrote
            self._records.put(
                Stored(int(offset), value, key, _headers(b"".join(headers)), int(timestamp_ms), timestamp_type=None)
            )


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """`a=1,b=NULL`"""
    pairs = [pair.split(b"=", 1) for pair in text.split(b",") if pair]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, value in pairs)
