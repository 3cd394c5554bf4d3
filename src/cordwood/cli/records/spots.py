"""Positions in a partition as `--from` and `--until` take them: earliest, latest, 1200, -10, @2024-05-01T12:00,
@-1h."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cordwood.client.errors import BadSetting

_AGO_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d)")
_FOR_ONE = re.compile(r"(\d+)=(.*)", re.DOTALL)


class BadSpot(BadSetting):
    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text!r} is not a position in a partition; expected earliest, latest, an offset (1200), "
            "-N for the last N, @TIME (@2024-05-01T12:00:00Z, @1714564800000) or @-N with ms, s, m, h or d (ago)"
        )


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    timestamp_ms: int


Spot = Earliest | Latest | AtOffset | BeforeEnd | AtTime


def parse_spot(text: str, now_ms: int) -> Spot:
    """Raises `BadSpot`."""
    if text in ("earliest", "beginning"):
        return Earliest()
    if text in ("latest", "end"):
        return Latest()
    if text.startswith("@"):
        return AtTime(_parse_time(text, now_ms))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise BadSpot(text)
    return BeforeEnd(int(digits)) if text.startswith("-") else AtOffset(int(digits))


def lies_before(spot: Spot, other: Spot) -> bool:
    """True if the spot is before the other for any contents of the partition."""
    if isinstance(spot, AtOffset) and isinstance(other, AtOffset):
        return spot.offset < other.offset
    if isinstance(spot, AtTime) and isinstance(other, AtTime):
        return spot.timestamp_ms < other.timestamp_ms
    return False


def parse_spots(texts: Sequence[str], partitions: Collection[int], now_ms: int, default: Spot) -> Mapping[int, Spot]:
    """Parses a spot for each partition: `PARTITION=SPOT` for one, `SPOT` for the others. Raises `BadSetting`."""
    common = default
    single = {}
    for text in texts:
        for_one = _FOR_ONE.fullmatch(text)
        if for_one is None:
            common = parse_spot(text, now_ms)
            continue
        partition = int(for_one[1])
        if partition not in partitions:
            raise BadSetting(f"{text!r}: partition {partition} is not read; {_listed(partitions)} are")
        single[partition] = parse_spot(for_one[2], now_ms)
    return {partition: single.get(partition, common) for partition in partitions}


def _parse_time(text: str, now_ms: int) -> int:
    time = text[1:]
    if time.isascii() and time.isdecimal():
        return int(time)
    ago = _AGO.fullmatch(time)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * _AGO_UNITS_MS[ago[2]])
    try:
        # Times without a zone are local.
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise BadSpot(text) from None


def _listed(partitions: Collection[int]) -> str:
    ordered = sorted(partitions)
    return ", ".join(map(str, ordered[:20])) + (", …" if len(ordered) > 20 else "")
