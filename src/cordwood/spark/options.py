"""Options of a read or a write as given by users: names in any case, values as text.

>>> options = Options({"Subscribe": "orders", "kafka.client.id": "job"}, known={"subscribe", "failOnDataLoss"})
>>> options.text("subscribe"), options.boolean("failOnDataLoss", True), options.client
('orders', True, {'client.id': 'job'})

An unknown name is an error that names the nearest known one. Options that start with `kafka.` are for the client, which
validates them.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from cordwood.spark.errors import BadOption

CLIENT_PREFIX = "kafka."
_TRUTH = {"true": True, "false": False}
_DURATIONS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Options:
    """Raises `BadOption`."""

    def __init__(self, given: Mapping[str, str], *, known: Collection[str], purpose: str = "this") -> None:
        """`known` are the names of all options there are for `purpose`, such as "a batch read"."""
        spelled = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        self.client: dict[str, object] = {}
        """Settings for the client, by Kafka's names."""
        for name, value in given.items():
            if name.lower().startswith(CLIENT_PREFIX):
                self.client[name.lower().removeprefix(CLIENT_PREFIX)] = value
            elif name.lower() in spelled:
                self._values[name.lower()] = value
            else:
                raise BadOption(_unknown(name, known, purpose))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in _TRUTH:
            raise BadOption(f"{name} is {value!r}; expected true or false")
        return _TRUTH[value.strip().lower()]

    def whole_number(self, name: str, *, least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise BadOption(f"{name} is {value!r}; expected a whole number from {least} on")
        return number

    def word(self, name: str, allowed: Collection[str], default: str) -> str:
        """One of a few, in any case; as it is written in `allowed`."""
        value = self.text(name)
        if value is None:
            return default
        for word in allowed:
            if word.lower() == value.strip().lower():
                return word
        raise BadOption(f"{name} is {value!r}; expected {' or '.join(allowed)}")

    def duration_ms(self, name: str, default: int) -> int:
        """As Spark writes them: 15m, 500ms, 2h; a number alone is milliseconds."""
        value = self.text(name)
        if value is None:
            return default
        number = value.strip().rstrip("abcdefghijklmnopqrstuvwxyz").strip()
        unit = value.strip()[len(number) :].strip() or "ms"
        if not number.isdigit() or unit not in _DURATIONS_MS:
            raise BadOption(f"{name} is {value!r}; expected a duration such as 500ms, 30s, 15m or 2h")
        return int(int(number) * _DURATIONS_MS[unit])


def _unknown(name: str, known: Collection[str], purpose: str) -> str:
    spelled = {each.lower(): each for each in known}
    nearest = get_close_matches(name.lower(), [*spelled, "kafka.bootstrap.servers"], n=1)
    if nearest:
        return f"there is no option {name} for {purpose}; did you mean {spelled.get(nearest[0], nearest[0])}?"
    return f"there is no option {name} for {purpose}; client settings begin with kafka."
