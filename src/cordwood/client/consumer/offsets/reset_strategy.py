"""`auto_offset_reset`: the initial position without a committed offset."""

import re
from dataclasses import dataclass
from enum import Enum

from cordwood.client.errors import BadSetting
from cordwood.client.offsets import EARLIEST, LATEST

_BY_DURATION = "by_duration:"
# Java's duration format, without a sign: positions cannot be in the future.
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?",
    re.IGNORECASE,
)


class ResetKind(Enum):
    NONE = "none"
    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


@dataclass(frozen=True, slots=True)
class ResetStrategy:
    kind: ResetKind
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> "ResetStrategy":
        """Raises `BadSetting`."""
        lowered = text.lower()
        if lowered.startswith(_BY_DURATION):
            return cls(ResetKind.BY_DURATION, _duration_ms(text[len(_BY_DURATION) :]))
        if lowered in ("none", "earliest", "latest"):
            return cls(ResetKind(lowered))
        raise BadSetting(f"auto_offset_reset is {text!r}; expected earliest, latest, none, or by_duration:PT1H")

    def timestamp(self, now_ms: int) -> int:
        """The timestamp for ListOffsets."""
        assert self.kind is not ResetKind.NONE
        if self.kind is ResetKind.BY_DURATION:
            return max(0, now_ms - self.duration_ms)
        return EARLIEST if self.kind is ResetKind.EARLIEST else LATEST


NO_RESET = ResetStrategy(ResetKind.NONE)
TO_BEGINNING = ResetStrategy(ResetKind.EARLIEST)
TO_END = ResetStrategy(ResetKind.LATEST)


def _duration_ms(text: str) -> int:
    parts = _DURATION.fullmatch(text)
    if parts is None or not any(parts.groups()) or text.upper().endswith("T"):
        raise BadSetting(
            f"auto_offset_reset has {text!r} for a duration; expected one of ISO 8601, such as PT1H or P7D"
        )
    days, hours, minutes = (int(parts[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = float((parts["seconds"] or "0").replace(",", "."))
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + round(seconds * 1000)
