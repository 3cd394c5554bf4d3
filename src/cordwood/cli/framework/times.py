"""Parses durations (500ms, 90s, 15m, 2h, 7d, or ISO 8601: PT1H30M, P7D) and formats them."""

import re
from datetime import UTC, datetime

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SHORT = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_ISO = re.compile(r"P(?:([0-9]+)D)?(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?")
_ISO_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def parse_duration_ms(text: str) -> int:
    """Parses a duration. Raises `ValueError` with the accepted formats."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        return int(short[1]) * _UNITS_MS[short[2]]
    iso = _ISO.fullmatch(text)
    if iso is None or not any(iso.groups()):
        raise ValueError(f"{text!r} is not a duration; expected forms are 500ms, 90s, 15m, 2h, 7d and PT1H30M")
    return round(sum(float(number or 0) * unit for number, unit in zip(iso.groups(), _ISO_UNITS_MS, strict=True)))


def duration_text(duration_ms: int) -> str:
    """Formats a duration in its largest units: 2h 5m, 17s, 350ms."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    parts = []
    rest = duration_ms
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def time_text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
